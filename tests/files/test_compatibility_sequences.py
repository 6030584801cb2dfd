"""The documented command sequences run here, line by line, as the page shows them."""

from __future__ import annotations

import importlib
import json
import shlex
from pathlib import Path
from string import Template

import pytest
from click.testing import CliRunner

from cpspec_trt.files.compatibility import BUILD, INFER, rows_for
from cpspec_trt.files.compatibility_page import render
from cpspec_trt.files.compatibility_row import AUDIO_BUILD, LLM_BUILD, OMNI, TTS
from cpspec_trt.files.compatibility_sequences import EXPORT, OMNI_SEQUENCE, SEQUENCES, TTS_SEQUENCE, Step
from tests.cli.runs import omni_document, tts_document
from tests.conftest import Maker

MAINS = {EXPORT: "cpspec_trt.cli.export", BUILD: "cpspec_trt.cli.build", INFER: "cpspec_trt.cli.infer"}
READERS = {LLM_BUILD: BUILD, AUDIO_BUILD: BUILD, TTS: TTS, OMNI: OMNI}
STEPS = [pytest.param(step, id=f"{family} {step.what}") for family, steps in SEQUENCES.items() for step in steps]


def run(steps: tuple[Step, ...], directory: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run our lines with the variables of the page; returns the directory of the engines."""
    monkeypatch.chdir(directory)
    places = {"CKPT": str(checkpoint), "ONNX": str(directory / "onnx"), "ENG": str(directory / "engines")}
    for step in steps:
        program, *words = shlex.split(Template(step.here()).substitute(places))
        result = CliRunner().invoke(importlib.import_module(MAINS[program]).main, words)
        assert result.exit_code == 0, f"{step.here()}\n{result.stderr}"
        assert "warning: --" not in result.stderr, "a flag of the sequence means nothing"
    return directory / "engines"


def files_of(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


EVERY = {"config.json", "engine_manifest.json"}
LLM = EVERY | {"llm.onnx", "llm.onnx.data", "embedding.safetensors"}
PREDICTOR = EVERY | {"llm.onnx", "llm.onnx.data", "codec_embeddings.safetensors", "lm_heads.safetensors"}


def test_the_sequence_of_qwen3_tts_ends_in_speech(
    tmp_path: Path, synthetic_checkpoint: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "input.json").write_text(json.dumps(tts_document()))
    engines = run(TTS_SEQUENCE, tmp_path, synthetic_checkpoint("tiny", 54), monkeypatch)
    assert files_of(engines) == {"talker", "code_predictor", "code2wav"}
    assert files_of(engines / "talker") >= LLM | {"text_projection.safetensors", "text_embedding.safetensors"}
    assert files_of(engines / "code_predictor") == PREDICTOR | {"small_to_mtp_projection.safetensors"}
    assert files_of(engines / "code2wav") >= EVERY | {"code2wav.onnx"}
    (response,) = json.loads((tmp_path / "output.json").read_text())["responses"]
    assert response["code_predictor"]["effective"] == 3
    assert files_of(tmp_path / "audio") == {"audio_req0.wav", "rvq_req0.safetensors"}


def test_the_sequence_of_qwen3_omni_ends_in_text_and_speech(
    tmp_path: Path, omni_checkpoint: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "input.json").write_text(json.dumps(omni_document()))
    engines = run(OMNI_SEQUENCE, tmp_path, omni_checkpoint("tiny", 1), monkeypatch)
    assert files_of(engines) == {"thinker", "talker", "code_predictor", "multimodal"}
    assert files_of(engines / "thinker") >= LLM
    assert files_of(engines / "talker") == LLM | {"text_projection.safetensors", "hidden_projection.safetensors"}
    assert files_of(engines / "code_predictor") == PREDICTOR
    assert files_of(engines / "multimodal" / "code2wav") >= EVERY | {"code2wav.onnx"}
    (response,) = json.loads((tmp_path / "output.json").read_text())["responses"]
    assert response["output_text"]
    assert response["code_predictor"]["effective"] == 3
    assert "audio_req0_batch0.wav" in files_of(tmp_path / "audio")


@pytest.mark.parametrize("step", STEPS)
def test_every_flag_of_the_reference_keeps_its_name_or_is_said_to_be_left_out(step: Step) -> None:
    flags = [argument.split()[0] for argument in step.arguments if argument.startswith("--")]
    kept = [word for word in step.here().split() if word.startswith("--")]
    assert kept == [flag for flag in flags if flag not in step.left_out()]
    for flag, note in step.left_out().items():
        row = rows_for(READERS[step.tool], "flag")[flag]
        assert row.status != "used"
        assert f"`{flag}` ({note})" in render()


@pytest.mark.parametrize("step", STEPS)
def test_only_the_place_of_an_export_differs(step: Step) -> None:
    for theirs, ours in step.moved.items():
        assert theirs.startswith("$ONNX/")
        assert ours.startswith("$ONNX/")
        assert theirs in step.reference()
        assert theirs not in step.here()


@pytest.mark.parametrize("step", STEPS)
def test_both_lines_of_a_step_stand_on_the_page_one_above_the_other(step: Step) -> None:
    assert f"\n{step.reference()}\n{step.here()}\n" in render()
