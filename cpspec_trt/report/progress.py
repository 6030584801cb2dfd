"""Progress on stderr: frames, audio seconds, realtime factor and elapsed time; silent without a terminal.

Where a Talker stops is unknown, so there is no bar and no time left. A line fits eighty columns.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class ProgressListener:
    """A ``pipelines.events.Listener`` that draws one line for the running request.

    The realtime factor is audio seconds produced per second of computing, so above 1 is faster than speech.
    """

    def __init__(self, frame_seconds: float, requests: int = 1) -> None:
        """Prepare the display.

        Args:
            frame_seconds: audio seconds of one frame.
            requests: how many there are; with several, each line says which of them runs.
        """
        self._frame_seconds = frame_seconds
        self._requests = requests
        self._position = 0
        self._enabled = _is_terminal(sys.stderr)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(
            *columns,
            console=Console(stderr=True),
            disable=not self._enabled,
            transient=True,
            redirect_stdout=_is_terminal(sys.stdout),  # what goes to a file must not end up on the terminal
        )
        self._task: TaskID | None = None
        self._began = 0.0

    def __enter__(self) -> ProgressListener:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def next_request(self) -> None:
        """The next of the requests begins."""
        self._position += 1

    def text_started(self, name: str, max_tokens: int) -> None:
        """Add a line for the Thinker's answer."""
        self._start(name, f"at most {max_tokens} tokens")

    def token_finished(self, tokens: int) -> None:
        """Update it."""
        if self._task is not None:
            self._progress.update(self._task, state=f"{tokens} tokens ({tokens / self._elapsed():.1f}/s)")

    def request_started(self, name: str, max_frames: int) -> None:
        """Add a line for speech, in place of the answer's."""
        self._start(name, f"at most {max_frames} frames")

    def frame_finished(self, frames: int) -> None:
        """Update it."""
        if self._task is not None:
            seconds, audio = self._elapsed(), frames * self._frame_seconds
            state = f"{frames} frames ({frames / seconds:.1f}/s) · {audio:.1f} s of audio"
            self._progress.update(self._task, state=f"{state} · realtime {audio / seconds:.2f}")

    def request_finished(self, name: str, frames: int, finish_reason: str) -> None:
        """Remove the line."""
        self._stop()

    def _start(self, name: str, state: str) -> None:
        self._stop()
        if self._enabled:
            self._began = time.perf_counter()
            which = f"request {self._position} of {self._requests}" if self._requests > 1 else name
            self._task = self._progress.add_task(which, total=None, state=state)

    def _stop(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None

    def _elapsed(self) -> float:
        return max(time.perf_counter() - self._began, 1e-9)


def _is_terminal(stream: TextIO | None) -> bool:
    """False also for a stream that the caller closed."""
    return stream is not None and stream.isatty()
