"""``cpspec-build --backend tensorrt-rtx`` as a user runs it: flags, presets, messages. No GPU is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cpspec_trt.files.manifest import read_manifest
from tests.builder import tiny_exports
from tests.cli.test_build import ORT, ROOT, assert_refused, build

RTX = ("--backend", "tensorrt-rtx")


@pytest.fixture
def onnx(tmp_path: Path) -> Path:
    """Exports of a Talker and a CodePredictor."""
    tiny_exports.write_talker(tmp_path / "onnx" / "llm")
    tiny_exports.write_code_predictor(tmp_path / "onnx" / "code_predictor")
    return tmp_path / "onnx"


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--timingCache", "t"], 2, "--timingCache: tensorrt-rtx cannot do this"),
        (["--versionCompatible"], 2, "--versionCompatible: tensorrt-rtx cannot do this"),
        (["--hardwareCompatible"], 2, "--hardwareCompatible: tensorrt-rtx cannot do this"),
        (
            ["--computeCapabilities", "9"],
            2,
            "--computeCapabilities '9': tensorrt-rtx does not build for it; use some of",
        ),
        (["--computeCapabilities", "7.5"], 2, "--computeCapabilities '7.5': tensorrt-rtx has no fp32 matrix products"),
        (["--optimizationLevel", "6"], 2, "--optimizationLevel is 6; it must lie in 0 … 5"),
        (["--workspaceMiB", "0"], 2, "--workspaceMiB is 0; it must be at least 1"),
        (["--precision", "fp8"], 2, "--precision 'fp8': is unknown; use one of fp32, fp16, bf16, int8"),
        (["--buildLog", "llm"], 1, "--buildLog llm: cannot be written: Is a directory"),
    ],
)
def test_what_the_flavour_cannot_do_ends_in_one_line_and_leaves_nothing(
    onnx: Path, flags: list[str], code: int, message: str
) -> None:
    assert_refused(build("--onnxDir", "llm", "--engineDir", "e", *RTX, *flags, cwd=onnx), code, message)
    assert sorted(path.name for path in onnx.iterdir()) == ["code_predictor", "llm"]


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("backend: tensorrt-rtx\ntensorrt: {timing_cache: t}", (), "{0}: tensorrt.timing_cache: tensorrt-rtx cannot"),
        ("tensorrt: {precision: fp8}", RTX, "{0}: tensorrt.precision 'fp8': is unknown"),
        ("tensorrt: {precision: fp16}", (*RTX, "--precision=fp8"), "--precision 'fp8': is unknown"),
    ],
)
def test_an_option_of_a_preset_is_blamed_on_its_key_and_one_of_a_flag_on_the_flag(
    tmp_path: Path, onnx: Path, text: str, flags: tuple[str, ...], message: str
) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(text)
    done = build("--onnxDir", onnx / "llm", "--engineDir", tmp_path / "e", "--config", preset, *flags)
    assert_refused(done, 2, re.escape(message.format(f"--config {preset}")))


def test_options_of_tensorrt_in_a_preset_rest_where_onnx_runtime_builds(tmp_path: Path, onnx: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text("tensorrt: {precision: bf16, workspace_mib: 64}\n")
    arguments = ("--onnxDir", onnx / "code_predictor", "--config", preset, "--engineDir")
    done = build(*arguments, tmp_path / "a", *ORT)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_manifest(tmp_path / "a").precision == "fp32"
    done = build(*arguments, tmp_path / "b", *RTX)
    assert re.fullmatch(
        rf"code_predictor: {tmp_path}/b \(llm.engine, .* MB, tensorrt-rtx [\d.]+, bf16\)\n", done.stdout
    )
    facts = read_manifest(tmp_path / "b").build
    assert facts is not None
    assert facts.workspace_bytes == 64 << 20


def test_a_dry_run_says_what_tensorrt_would_build(tmp_path: Path, onnx: Path) -> None:
    done = build("--onnxDir", onnx / "llm", *RTX, "--computeCapabilities", "8.9,12.0", "--dryRun")
    assert done.returncode == 0
    assert "note: tensorrt-rtx in bf16 for compute capability 8.9, 12.0, optimization level 3\n" in done.stderr


def test_an_onnx_runtime_engine_becomes_a_tensorrt_engine_and_no_file_of_it_stays(tmp_path: Path, onnx: Path) -> None:
    engine = tmp_path / "talker"
    assert build("--onnxDir", onnx / "llm", "--engineDir", engine, *ORT).returncode == 0
    (engine / "voice_map.json").write_text("{}")
    assert build("--onnxDir", onnx / "llm", "--engineDir", engine, *RTX).returncode == 0
    names = {path.name for path in engine.iterdir()}
    assert {"llm.engine", "voice_map.json", "embedding.safetensors", "config.json", "engine_manifest.json"} <= names
    assert not {"llm.onnx", "llm.onnx.data"} & names


def test_ctrl_c_ends_a_build_that_tensorrt_is_at_and_leaves_nothing(tmp_path: Path, onnx: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from cpspec_trt.report.build_progress import BuildProgress\n"
        "def stop(self, *values): os.kill(os.getpid(), signal.SIGINT)\n"
        "BuildProgress.phase_finished = stop\n"
        f"sys.argv = ['cpspec-build', '--onnxDir', {str(onnx / 'llm')!r}, '--engineDir', {str(tmp_path / 'e')!r}]\n"
        "sys.argv += ['--backend', 'tensorrt-rtx']\n"
        "from cpspec_trt.cli.build import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["onnx"]
