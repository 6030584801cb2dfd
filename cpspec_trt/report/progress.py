"""Progress on stderr: frames/s, audio seconds and realtime factor while frames appear; silent without a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class ProgressListener:
    """A ``pipelines.events.Listener`` that draws one line per running request.

    The realtime factor is audio seconds produced per second of computing, so above 1 is faster than speech.
    """

    def __init__(self, frame_seconds: float) -> None:
        """Prepare the display.

        Args:
            frame_seconds: audio seconds of one frame.
        """
        self._frame_seconds = frame_seconds
        self._enabled = sys.stderr.isatty()
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed} frames · {task.fields[rate]}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), disable=not self._enabled, transient=True)
        self._task: TaskID | None = None
        self._began = 0.0

    def __enter__(self) -> ProgressListener:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def request_started(self, name: str, max_frames: int) -> None:
        """Add a line. The total is unknown until the Talker stops, so the bar pulses."""
        if self._enabled:
            self._began = time.perf_counter()
            self._task = self._progress.add_task(name, total=None, rate=f"at most {max_frames}")

    def frame_finished(self, frames: int) -> None:
        """Update the line."""
        if self._task is not None:
            seconds = max(time.perf_counter() - self._began, 1e-9)
            audio = frames * self._frame_seconds
            rate = f"{frames / seconds:.1f} frames/s · {audio:.1f} s of audio · realtime factor {audio / seconds:.2f}"
            self._progress.update(self._task, completed=frames, rate=rate)

    def request_finished(self, name: str, frames: int, finish_reason: str) -> None:
        """Remove the line."""
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
