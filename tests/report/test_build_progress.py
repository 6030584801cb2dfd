"""TensorRT's phases appear on a terminal only, each as long as it runs."""

from __future__ import annotations

import subprocess
import sys

from tests.report.test_progress import in_terminal

SCRIPT = """
import time
from cpspec_trt.report.build_progress import BuildProgress
with BuildProgress() as listener:
    listener.phase_started("Building engine", None, 6)
    listener.phase_advanced("Building engine", 2)
    listener.phase_started("Timing tactics", "Building engine", 3)
    listener.phase_advanced("Timing tactics", 1)
    time.sleep(0.3)
    listener.phase_finished("Timing tactics")
    listener.phase_advanced("Building engine", 5)
    time.sleep(0.3)
    listener.phase_finished("Building engine")
"""


def test_nothing_is_printed_when_stderr_is_a_pipe() -> None:
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert (result.stdout, result.stderr) == ("", "")


def test_a_terminal_shows_each_running_phase_with_its_steps() -> None:
    text = in_terminal(SCRIPT)
    assert "Building engine" in text
    assert "  Timing tactics" in text
    assert "2/6" in text
    assert "1/3" in text
    last = text[text.rindex("5/6") :]
    assert "Timing tactics" not in last


def test_a_build_without_phases_shows_nothing() -> None:
    script = SCRIPT[: SCRIPT.index("    listener")] + "    pass\n"
    assert in_terminal(script) == ""
