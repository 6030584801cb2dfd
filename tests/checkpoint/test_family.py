"""The family of a checkpoint is what its configuration says, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpspec_trt.checkpoint.family import QWEN3_OMNI, QWEN3_TTS, read_family
from cpspec_trt.errors import CheckpointError, UnsupportedError
from tests.checkpoint.changes import PRETRAINED

DEMO_VOICE = Path(__file__).parents[2] / "assets" / "demo-voice" / "checkpoint"


def test_each_family_is_known_by_its_model_type() -> None:
    assert read_family(DEMO_VOICE / "config.json") == QWEN3_TTS
    assert read_family(PRETRAINED / "config.json") == QWEN3_OMNI


@pytest.mark.parametrize("model_type", ["bert", "qwen3_omni_moe_thinker", "QWEN3_TTS"])
def test_another_family_is_refused_with_those_that_are_known(tmp_path: Path, model_type: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(f'{{"model_type": "{model_type}"}}')
    message = f"{model_type!r} is not supported; this release reads qwen3_tts and qwen3_omni_moe"
    with pytest.raises(UnsupportedError, match=message):
        read_family(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "required field 'model_type' is missing"),
        ('{"model_type": ""}', "field 'model_type' is empty"),
        ('{"model_type": 3}', "field 'model_type' must be a text, found 3"),
        ("{", "not JSON"),
    ],
)
def test_a_configuration_that_names_no_family_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=message):
        read_family(tmp_path / "config.json")
