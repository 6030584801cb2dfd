"""Progress appears on a terminal only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

SCRIPT = """
import time
from cpspec_trt.report.progress import ProgressListener
with ProgressListener(0.08) as progress:
    progress.request_started("request 0", 100)
    for frame in range(1, 6):
        time.sleep(0.05)
        progress.frame_finished(frame)
    time.sleep(0.2)
    progress.request_finished("request 0", 5, "stop")
"""


def test_nothing_is_printed_when_stderr_is_a_pipe() -> None:
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert result.stderr == ""
    assert result.stdout == ""


def test_a_terminal_shows_frames_audio_seconds_and_the_realtime_factor() -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "160"}
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 4096):
                shown += block
        except OSError:  # Linux answers EIO when the other side has closed
            pass
        process.wait(timeout=60)
    os.close(ours)
    text = shown.decode()
    assert "5 frames" in text
    assert "frames/s" in text
    assert "s of audio" in text
    assert "realtime factor" in text
