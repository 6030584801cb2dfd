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


def in_terminal(script: str) -> str:
    """What a terminal of eighty columns is sent."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([sys.executable, "-c", script], stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 4096):
                shown += block
        except OSError:  # Linux answers EIO when the other side has closed
            pass
        process.wait(timeout=60)
    os.close(ours)
    return shown.decode()


def test_a_terminal_shows_frames_audio_seconds_realtime_factor_and_elapsed_time() -> None:
    text = in_terminal(SCRIPT)
    assert "5 frames (" in text
    assert "/s) · 0.4 s of audio · realtime " in text
    assert "0:00:00" in text, "the elapsed time is not shown"
    assert "…" not in text, "cut off at eighty columns"


def test_a_terminal_shows_the_tokens_of_a_running_answer() -> None:
    script = SCRIPT.replace("request_started", "text_started").replace("frame_finished", "token_finished")
    assert "5 tokens (" in in_terminal(script)


def test_with_several_requests_the_line_says_which_of_them_runs() -> None:
    second = "progress.next_request(); progress.next_request(); progress.request_started"
    script = SCRIPT.replace("(0.08)", "(0.08, requests=12)").replace("progress.request_started", second)
    assert "request 2 of 12" in in_terminal(script)


def test_closed_streams_are_no_terminals() -> None:
    closed = "import sys; sys.stderr = sys.stdout = None\n" + SCRIPT
    subprocess.run([sys.executable, "-c", closed], timeout=60, check=True)
