"""The commands and programs of the README run as they stand there, on checkpoints that are at hand."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import soundfile

from tests.conftest import DEMO_CHECKPOINT, ROOT, Maker

README = (ROOT / "README.md").read_text(encoding="utf-8")
RTX_IS_HERE = (platform.system(), platform.machine()) == ("Linux", "x86_64")  # TensorRT for RTX has no other wheel
COMMANDS = ("cpspec-export", "cpspec-build", "cpspec-infer")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_shell_commands_and_the_programs_run_and_give_speech(tmp_path: Path, omni_checkpoint: Maker) -> None:
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "Qwen3-TTS-12Hz-0.6B-CustomVoice").symlink_to(DEMO_CHECKPOINT)
    (tmp_path / "Qwen3-Omni-30B-A3B-Instruct").symlink_to(omni_checkpoint("tiny", 1))
    install(tmp_path / "bin")
    for block in blocks("sh"):
        if "tensorrt-rtx" not in block or RTX_IS_HERE:
            run(tmp_path, "sh", "-e", "-c", block)
    samples, rate = soundfile.read(tmp_path / "hello.wav")
    assert rate == 24_000
    assert np.sqrt(np.mean(samples**2)) > 1e-4, "silence"
    for name in ("output.json", "answer.json"):
        (response,) = json.loads((tmp_path / name).read_text())["responses"]
        samples, rate = soundfile.read(tmp_path / response["audio_file"])
        assert rate == 24_000
        assert len(samples) == response["audio_samples"] > 0
        assert np.sqrt(np.mean(samples**2)) > 1e-4, "silence"
        assert response["code_predictor"]["effective"] == 3
    programs = blocks("python")
    assert len(programs) == 2
    for program in programs:
        assert "24000" in run(tmp_path, sys.executable, "-c", program)


def install(directory: Path) -> None:
    """Put the package's commands into a directory, as an installation would."""
    directory.mkdir()
    for name in COMMANDS:
        module = f"cpspec_trt.cli.{name.removeprefix('cpspec-')}"
        (directory / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        (directory / name).chmod(0o755)


def run(directory: Path, *command: str) -> str:
    """Run a command with those of the package on the path; what it printed."""
    environment = os.environ | {"PATH": f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stderr}"
    return done.stdout


def test_every_command_of_the_package_that_the_readme_shows_was_run() -> None:
    shown = {line.split()[0] for line in README.splitlines() if line.startswith("cpspec-")}
    run_here = {line.split()[0] for block in blocks("sh") for line in block.splitlines() if line.startswith("cpspec-")}
    assert shown == run_here == {"cpspec-build", "cpspec-infer"}


def test_the_files_that_the_readme_names_are_there() -> None:
    names = set(re.findall(r"\]\(([^)#:]+)\)", README)) | set(re.findall(r"configs/\S+\.yaml", README))
    assert len(names) > 4
    assert not [name for name in names if not (ROOT / name).exists()]
