"""The quick start is itself a test: the demo script builds engines and speaks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import soundfile

from tests.conftest import ROOT


def demo(output: Path, text: str) -> subprocess.CompletedProcess[str]:
    arguments = ["--text", text, "--speaker", "ryan", "--output", str(output)]
    return subprocess.run(
        [sys.executable, "scripts/demo.py", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_demo_speaks_with_and_without_speculation(tmp_path: Path) -> None:
    result = demo(tmp_path / "demo", "the mother is in the kitchen")
    assert result.returncode == 0, result.stderr
    passes = {}
    for window in (0, 3):
        directory = tmp_path / "demo" / f"window-{window}"
        (response,) = json.loads((directory / "output.json").read_text())["responses"]
        samples, rate = soundfile.read(directory / "audio_req0.wav")
        assert response["finish_reason"] == "stop"
        assert len(samples) == response["frames"] * 1920
        assert 1.0 < len(samples) / rate < 5.0
        assert np.sqrt(np.mean(samples**2)) > 0.01, "the demo is silent"
        assert str(directory / "audio_req0.wav") in result.stdout
        passes[window] = response["code_predictor"]["passes"] / response["frames"]
    assert passes[0] == 15
    assert passes[3] < 12


def test_words_outside_the_vocabulary_are_warned_about(tmp_path: Path) -> None:
    result = demo(tmp_path / "demo", "the platypus is in the kitchen")
    assert result.returncode == 0, result.stderr
    assert "closed vocabulary" in result.stderr
    assert "platypus" in result.stderr


def test_an_unknown_speaker_ends_the_demo_with_the_commands_own_error(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "scripts/demo.py", "--text", "hello", "--speaker", "rian", "--output", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert "did you mean 'ryan'" in result.stderr
