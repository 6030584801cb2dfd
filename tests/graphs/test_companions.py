"""What travels beside the first language model is read before anything is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.errors import CheckpointError, CpspecError
from cpspec_trt.graphs.export import export_checkpoint
from tests.checkpoint.changes import PRETRAINED

DEMO = Path(__file__).parents[2] / "assets" / "demo-voice" / "checkpoint"
FAMILIES = {"tts": (DEMO, "talker"), "omni": (PRETRAINED, "thinker")}


@pytest.fixture(params=FAMILIES)
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    source, component = FAMILIES[request.param]
    return Path(shutil.copytree(source, tmp_path / "checkpoint")), component


def refused(checkpoint: tuple[Path, str]) -> str:
    """The error of an export, which has written nothing."""
    directory, component = checkpoint
    with pytest.raises(CpspecError) as caught:
        export_checkpoint(directory, directory.parent / "onnx", [component])
    assert not (directory.parent / "onnx").exists()
    return str(caught.value)


@pytest.mark.parametrize(("name", "content"), [("tokenizer.json", "{"), ("generation_config.json", "[1]")])
def test_a_damaged_file_is_named(checkpoint: tuple[Path, str], name: str, content: str) -> None:
    (checkpoint[0] / name).write_text(content)
    assert refused(checkpoint).startswith(f"{checkpoint[0] / name}: ")


def test_a_list_of_words_without_a_word_is_named(checkpoint: tuple[Path, str]) -> None:
    (checkpoint[0] / "vocabulary.txt").write_text("\n")
    assert refused(checkpoint).startswith(f"{checkpoint[0] / 'vocabulary.txt'}: holds no word")


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("top_k", 5.5, "a whole number"),
        ("talker_top_k", "5", "a whole number"),
        ("max_new_tokens", True, "a whole number"),
        ("temperature", "warm", "a number"),
        ("subtalker_top_p", None, "missing"),
        ("talker_repetition_penalty", [1], "a number"),
        ("do_sample", 1, "true or false"),
        ("subtalker_dosample", "yes", "true or false"),
    ],
)
def test_a_sampling_default_of_another_type_is_named(
    checkpoint: tuple[Path, str], field: str, value: Any, kind: str
) -> None:
    path = checkpoint[0] / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    message = refused(checkpoint)
    assert message.startswith(str(path))
    assert repr(field) in message
    assert kind in message


def test_fields_that_nobody_reads_may_hold_anything(checkpoint: tuple[Path, str]) -> None:
    directory, component = checkpoint
    (directory / "generation_config.json").write_text('{"eos_token_id": [1, 2], "transformers_version": "5"}')
    assert list(export_checkpoint(directory, directory.parent / "onnx", [component])) == [component]


@pytest.mark.parametrize(
    ("field", "token"),
    [
        ("im_start_token_id", "<|im_start|>"),
        ("im_end_token_id", "<|im_end|>"),
        ("assistant_token_id", "assistant"),
        ("tts_pad_token_id", "<tts_pad>"),
        ("tts_bos_token_id", "<tts_text_bos>"),
        ("tts_eos_token_id", "<tts_text_eod>"),
    ],
)
def test_an_id_that_the_tokenizer_gives_to_another_token_is_named(
    checkpoint: tuple[Path, str], field: str, token: str
) -> None:
    path = checkpoint[0] / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: 7}))
    assert refused(checkpoint).startswith(f"{path}: field {field!r} is 7, but the tokenizer writes {token!r} as [")


@pytest.mark.parametrize("field", ["user_token_id", "system_token_id"])
def test_qwen3_omni_has_two_more_roles(tmp_path: Path, field: str) -> None:
    copied = Path(shutil.copytree(PRETRAINED, tmp_path / "checkpoint"))
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, field: 7}))
    with pytest.raises(CheckpointError, match=f"field '{field}' is 7"):
        export_checkpoint(copied, tmp_path / "onnx")
