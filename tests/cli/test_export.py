"""``cpspec-export`` as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoint.changes import OMNI, PRETRAINED

ROOT = Path(__file__).parents[2]
DEMO_VOICE = ROOT / "assets" / "demo-voice" / "checkpoint"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cpspec_trt.cli.export", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_checkpoint_is_exported_and_each_directory_is_printed(tmp_path: Path) -> None:
    result = run(DEMO_VOICE, tmp_path / "onnx")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    for line, component, inside in zip(
        lines, ["talker", "code_predictor", "code2wav"], ["llm", "code_predictor", "code2wav"], strict=True
    ):
        directory = tmp_path / "onnx" / inside
        size = sum(file.stat().st_size for file in directory.iterdir())
        assert line == f"{component}: {directory} ({size / 1e6:.1f} MB)"
        assert (directory / "model.onnx").is_file()


def test_an_engine_directory_is_no_place_for_an_export(tmp_path: Path) -> None:
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "engine_manifest.json").write_text("{}")
    result = run(DEMO_VOICE, tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {tmp_path}/llm: holds an engine (engine_manifest.json)")


def test_components_select_what_is_written(tmp_path: Path) -> None:
    assert run(DEMO_VOICE, tmp_path, "--components=code_predictor, code2wav").returncode == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["code2wav", "code_predictor"]


def test_a_qwen3_omni_checkpoint_becomes_four_directories(tmp_path: Path) -> None:
    result = run(PRETRAINED, tmp_path / "onnx")
    assert (result.returncode, result.stderr) == (0, "")
    found = [line.split(":")[0] for line in result.stdout.splitlines()]
    assert found == ["thinker", "talker", "code_predictor", "code2wav"]
    assert sorted(path.name for path in (tmp_path / "onnx").iterdir()) == sorted(found)


def test_a_checkpoint_that_cannot_speak_is_exported_with_a_note(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(PRETRAINED, tmp_path / "checkpoint"))
    (copied / "config.json").write_text(json.dumps(OMNI | {"enable_audio_output": False}))
    result = run(copied, tmp_path / "onnx")
    note = "note: the checkpoint has no audio output: it consists of the Thinker alone\n"
    assert (result.returncode, result.stderr) == (0, note)
    assert [path.name for path in (tmp_path / "onnx").iterdir()] == ["thinker"]


def test_a_checkpoint_of_another_family_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    result = run(tmp_path, tmp_path / "onnx")
    assert (result.returncode, result.stdout) == (1, "")
    message = "model_type 'bert' is not supported; this release reads qwen3_tts and qwen3_omni_moe"
    assert result.stderr == f"error: {tmp_path / 'config.json'}: {message}\n"


def bare_checkpoint(directory: Path) -> Path:
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"model_type": "qwen3_tts"}))
    return directory


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "error: Missing argument 'CKPT'; see --help"),
        (["{voice}"], 2, "error: Missing argument 'ONNX_DIR'; see --help"),
        (["{voice}", ""], 2, "error: Invalid value for 'ONNX_DIR': the path is empty; see --help"),
        (["", "{tmp}/onnx"], 2, "error: Invalid value for 'CKPT': the path is empty; see --help"),
        (["{voice}", "{tmp}/onnx", "--componnets=talker"], 2, "error: No such option"),
        (["{voice}", "{tmp}/onnx", "--components=thinker"], 2, "error: component 'thinker' is not in this checkpo"),
        (["{voice}", "{tmp}/onnx", "--components=vocoder"], 2, "error: component 'vocoder' is unknown; choose from t"),
        (["{tmp}/nowhere", "{tmp}/onnx"], 1, "error: {tmp}/nowhere: is not a directory; pass the directory of"),
        (["{bare}", "{tmp}/onnx"], 1, "error: {bare}: the checkpoint lacks tokenizer_config.json, vocab.json, merges"),
        (["{voice}", "{voice}/config.json"], 2, "error: {voice}/config.json: is a file, so"),
    ],
)
def test_bad_input_gives_one_line_the_right_code_and_no_output(
    tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    names = {"voice": DEMO_VOICE, "tmp": tmp_path, "bare": bare_checkpoint(tmp_path / "bare")}
    result = run(*(argument.format(**names) for argument in arguments))
    assert (result.returncode, result.stdout) == (code, "")
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(message.format(**names))
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize(
    ("module", "arguments", "named", "what"),
    [
        ("export", ("{voice}", "{tmp}/onnx"), "{tmp}/onnx/llm", "export"),
        ("build", ("--checkpoint={voice}", "--engineDir={tmp}/engines"), "{tmp}/engines", "export"),
        ("build", ("--checkpoint={voice}", "--engineDir={tmp}/e", "--onnxDir={tmp}/onnx"), "{tmp}/onnx/llm", "export"),
    ],
)
def test_a_write_that_fails_midway_names_the_place_the_user_gave(
    tmp_path: Path, module: str, arguments: tuple[str, ...], named: str, what: str
) -> None:
    names = {"voice": DEMO_VOICE, "tmp": tmp_path}
    command = [sys.executable, "-m", f"cpspec_trt.cli.{module}", *(argument.format(**names) for argument in arguments)]
    limited = ["bash", "-c", 'ulimit -f 1000; exec "$@"', "limited", *command]  # files of at most a megabyte
    result = subprocess.run(limited, cwd=ROOT, capture_output=True, text=True, check=False)
    message = f"the {what} cannot be written: File too large; check the place and its space"
    assert (result.returncode, result.stderr) == (1, f"error: {named.format(**names)}: {message}\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_progress_is_one_line_per_component_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "cpspec_trt.cli.export", str(DEMO_VOICE), str(tmp_path / "onnx")]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=theirs, timeout=120, check=True)
    os.close(theirs)
    lines = os.read(ours, 10_000).decode().split("\r\n")
    os.close(ours)
    assert lines == ["exporting talker …", "exporting code_predictor …", "exporting code2wav …", ""]


def test_both_spellings_of_help_work() -> None:
    assert run("-h").stdout == run("--help").stdout
    assert "CKPT ONNX_DIR" in run("-h").stdout


def test_help_names_the_arguments() -> None:
    result = run("--help")
    assert (result.returncode, result.stderr) == (0, "")
    for part in ("CKPT ONNX_DIR", "--components", "talker,code_predictor,code2wav"):
        assert part in result.stdout
