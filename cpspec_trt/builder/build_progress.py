"""How far a build is: TensorRT's phases, passed on to whoever shows them."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Protocol


class BuildListener(Protocol):
    """Hears of the phases of a build. A phase lies inside its parent; steps count from 1."""

    def phase_started(self, name: str, parent: str | None, steps: int) -> None:
        """A phase of so many steps begins."""

    def phase_advanced(self, name: str, step: int) -> None:
        """So many of its steps are done."""

    def phase_finished(self, name: str) -> None:
        """It is over, perhaps before its last step."""


class SilentListener:
    """Shows nothing."""

    def phase_started(self, name: str, parent: str | None, steps: int) -> None:
        """Nothing."""

    def phase_advanced(self, name: str, step: int) -> None:
        """Nothing."""

    def phase_finished(self, name: str) -> None:
        """Nothing."""


class Interrupts:
    """Holds Ctrl-C back while TensorRT runs, as a context manager, and raises it at the end.

    Python would raise KeyboardInterrupt in whatever callback runs at that moment, and TensorRT swallows exceptions of
    callbacks: the build would go on. Only the main thread is told of signals; elsewhere nothing is held back.

    Attributes:
        seen: whether Ctrl-C came.
    """

    def __init__(self) -> None:
        """Nothing has come yet."""
        self.seen = False
        self._earlier: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._earlier = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, tb: TracebackType | None) -> None:
        if self._earlier is not None:
            signal.signal(signal.SIGINT, self._earlier)
        if self.seen:
            raise KeyboardInterrupt  # instead of the failure that stopping has caused

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.seen = True


def monitor(trt: Any, listener: BuildListener, interrupts: Interrupts) -> Any | None:
    """An ``IProgressMonitor`` for ``IBuilderConfig.progress_monitor``; None if the module has no such class.

    After Ctrl-C it makes TensorRT stop at the end of the step.
    """
    if not hasattr(trt, "IProgressMonitor"):
        return None

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            listener.phase_started(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            listener.phase_advanced(phase_name, step + 1)
            return not interrupts.seen

        def phase_finish(self, phase_name: str) -> None:
            listener.phase_finished(phase_name)

    return Monitor()
