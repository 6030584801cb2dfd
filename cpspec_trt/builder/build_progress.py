"""How far a build is: TensorRT's phases, passed on to whoever shows them."""

from __future__ import annotations

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


def monitor(trt: Any, listener: BuildListener) -> Any | None:
    """An ``IProgressMonitor`` for ``IBuilderConfig.progress_monitor``; None if the module has no such class.

    Its attribute ``interrupted`` tells whether Ctrl-C came. TensorRT then stops at the end of the step: an exception
    must not pass through its frames.
    """
    if not hasattr(trt, "IProgressMonitor"):
        return None

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self.interrupted = False

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            self._tell(listener.phase_started, phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            self._tell(listener.phase_advanced, phase_name, step + 1)
            return not self.interrupted

        def phase_finish(self, phase_name: str) -> None:
            self._tell(listener.phase_finished, phase_name)

        def _tell(self, hear: Any, *values: Any) -> None:
            try:
                hear(*values)
            except KeyboardInterrupt:
                self.interrupted = True

    return Monitor()
