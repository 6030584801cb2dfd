"""TensorRT's phases on stderr, one line each, as long as they run; silent without a terminal."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_INDENT = "  "


class BuildProgress:
    """A ``builder.build_progress.BuildListener`` that draws a bar for every phase that is running."""

    def __init__(self) -> None:
        """Prepare the display."""
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not (sys.stderr is not None and sys.stderr.isatty()),
            transient=True,
        )
        self._running: list[tuple[str, TaskID]] = []  # from the outermost phase to the innermost

    def __enter__(self) -> BuildProgress:
        return self  # the display starts with the first phase: ONNX Runtime has none

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def phase_started(self, name: str, parent: str | None, steps: int) -> None:
        """Add a bar below those of the phases around it."""
        self._progress.start()
        depth = len(self._running) if parent is not None else 0
        self._running.append((name, self._progress.add_task(_INDENT * depth + name, total=steps)))

    def phase_advanced(self, name: str, step: int) -> None:
        """Fill it up to this step."""
        for found, task in reversed(self._running):
            if found == name:
                self._progress.update(task, completed=step)
                return

    def phase_finished(self, name: str) -> None:
        """Remove it."""
        for place in range(len(self._running) - 1, -1, -1):
            if self._running[place][0] == name:
                self._progress.remove_task(self._running.pop(place)[1])
                return
