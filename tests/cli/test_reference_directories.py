"""Exports and engines of TensorRT Edge-LLM are recognised, and the message says what to run instead."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from cpspec_trt.cli.build import main
from tests.cli import runs
from tests.cli.runs import Result, TtsRun, assert_one_clear_line, infer_here, tts_document
from tests.conftest import Maker
from tests.reference_directories import write_engine, write_export


def build_here(*arguments: object) -> Result:
    words = list(map(str, arguments))
    result = CliRunner().invoke(main, words)
    return Result(words, result.exit_code, result.stdout, result.stderr)


@pytest.mark.parametrize(
    ("component", "sign"),
    [
        ("llm", "it holds the operator trt::AttentionPlugin"),
        ("code_predictor", "it holds the operator trt::AttentionPlugin"),
        ("code2wav", "was made by TensorRT Edge-LLM (it has code2wav_config)"),
    ],
)
def test_an_export_is_refused_with_the_command_to_run_instead(tmp_path: Path, component: str, sign: str) -> None:
    export = write_export(tmp_path / component, component)
    result = build_here("--onnxDir", export, "--engineDir", tmp_path / "engine")
    assert_one_clear_line(result, 1, str(export), sign, "cpspec-build --checkpoint CHECKPOINT")
    assert not (tmp_path / "engine").exists()


@pytest.mark.parametrize("component", ["talker", "code_predictor", "code2wav"])
def test_an_engine_is_refused_before_anything_is_opened(
    tmp_path: Path, synthetic_engines: Maker, monkeypatch: pytest.MonkeyPatch, component: str
) -> None:
    monkeypatch.setattr(runs, "infer", infer_here)
    engines = Path(shutil.copytree(synthetic_engines("tiny", 54), tmp_path / "engines"))
    shutil.rmtree(engines / component)
    write_engine(engines / component, component)
    run = TtsRun(tmp_path, engines / "talker")
    place = f"{component}/config.json: was made by TensorRT Edge-LLM (it has "
    assert_one_clear_line(run(tts_document()), 1, place, "cpspec-build --checkpoint CHECKPOINT --engineDir ENGINES")
    assert run.left_nothing()


def test_a_whole_set_of_engines_is_refused(tmp_path: Path) -> None:
    for component in ("talker", "code_predictor", "code2wav"):
        write_engine(tmp_path / component, component)
    (tmp_path / "in.json").write_text('{"requests": [{"messages": [{"role": "assistant", "content": "hello"}]}]}')
    result = infer_here("--inputFile", tmp_path / "in.json", "--talkerEngineDir", tmp_path / "talker")
    assert_one_clear_line(result, 1, "talker/config.json: was made by TensorRT Edge-LLM")
    verified = build_here("--verify", "--engineDir", tmp_path)
    assert_one_clear_line(verified, 1, "engine_manifest.json: the engine manifest (build the engine with cpspec-build)")
