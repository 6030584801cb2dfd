"""What the simulation raises and where in the product a call came from."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = str(Path(__file__).parent)


class SimulationFault(BaseException):
    """A misuse of CUDA, of TensorRT or of the kernels.

    Not an ``Exception``: no handler of the product may swallow it. Where one does, the simulation still fails when it
    is closed, because it keeps a list.
    """


class FaultLog:
    """The faults of one simulation."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def add(self, message: str) -> SimulationFault:
        """Note a fault and give it back, to be raised."""
        self.messages.append(f"simulation: {message} (at {caller()})")
        return SimulationFault(self.messages[-1])


def caller() -> str:
    """File and line of the nearest frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_HERE) or Path(name).name.startswith("test_"):
            break
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
