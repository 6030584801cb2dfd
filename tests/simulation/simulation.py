"""Opens the simulation: while it is open, the product's imports of CUDA and TensorRT give the stand-ins.

with simulated() as simulation:
    ...  # ordinary product code
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

from tests.simulation import cuda_runtime, tensorrt_module
from tests.simulation.counts import Counts
from tests.simulation.device import DeviceSettings, SimulatedDevice, installed
from tests.simulation.faults import SimulationFault
from tests.simulation.kernels import SimulatedHandle, library_path

LIBRARY_VARIABLE = "CPSPEC_CUDA_LIBRARY"


class Simulation:
    """What a test sees of an open simulation.

    Attributes:
        device: the simulated device.
        runtime: the stand-in for ``cuda.bindings.runtime``.
        tensorrt, tensorrt_rtx: the stand-ins for those modules.
        forgiven: whether faults and leaks were wanted.
    """

    def __init__(self, device: SimulatedDevice, modules: dict[str, ModuleType]) -> None:
        self.device = device
        self.runtime: Any = modules["cuda.bindings.runtime"]
        self.tensorrt: Any = modules["tensorrt"]
        self.tensorrt_rtx: Any = modules["tensorrt_rtx"]
        self.forgiven = False

    def forgive(self) -> None:
        """A test wanted its fault, which ends a program: neither it nor what is left behind counts at the end."""
        self.forgiven = True

    @property
    def counts(self) -> Counts:
        """What was asked of the device so far."""
        return self.device.counts

    @property
    def live_bytes(self) -> int:
        """Device memory in use, TensorRT's included."""
        return self.device.used

    @property
    def live_allocations(self) -> int:
        """Device allocations not freed yet."""
        return len(self.device.live("device"))

    @property
    def pinned_bytes(self) -> int:
        """Pinned memory in use."""
        return self.device.live_bytes("pinned")

    @property
    def faults(self) -> list[str]:
        """Misuses seen so far."""
        return self.device.log.messages


@contextmanager
def simulated(
    *,
    memory: int = 1 << 30,
    capability: tuple[int, int] = (9, 0),
    driver: bool = True,
    devices: int = 1,
    name: str = "simulated GPU",
    tensorrt_version: str = "11.4.0.12",
    leaks: bool = True,
) -> Iterator[Simulation]:
    """Open the simulation.

    Args:
        memory: bytes of device memory.
        capability: compute capability.
        driver: False for a machine without a driver.
        devices: 0 for a machine with a driver and no device.
        name: of the device.
        tensorrt_version: of the module ``tensorrt``.
        leaks: whether what is left at the end is a failure.

    Raises:
        SimulationFault: at the end, if there was a misuse (a swallowed one too), or something was left behind.
    """
    device = SimulatedDevice(DeviceSettings(memory, capability, driver, devices, name))
    modules = _modules(tensorrt_version)
    path = library_path()
    open_library = ctypes.CDLL
    handle = SimulatedHandle(path, open_library)

    def opened(name: Any, *arguments: Any, **named: Any) -> Any:
        return handle if name == str(path) else open_library(name, *arguments, **named)

    with ExitStack() as stack:
        stack.enter_context(installed(device))
        stack.enter_context(_replaced(modules))
        stack.enter_context(mock.patch.dict(os.environ, {LIBRARY_VARIABLE: str(path)}))
        stack.enter_context(mock.patch.object(ctypes, "CDLL", opened))
        stack.callback(device.close)
        simulation = Simulation(device, modules)
        yield simulation
        gc.collect()
        problems = list(device.log.messages)
        if leaks:
            problems += [f"simulation: left behind: {each}" for each in device.leaks()]
        if problems and not simulation.forgiven:
            raise SimulationFault("\n".join(problems))


@contextmanager
def _replaced(modules: dict[str, ModuleType]) -> Iterator[None]:
    """Put modules into ``sys.modules``; what else is imported meanwhile stays there afterwards."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _modules(tensorrt_version: str) -> dict[str, ModuleType]:
    cuda, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
    cuda.__path__, bindings.__path__ = [], []
    cuda.bindings = bindings  # type: ignore[attr-defined]
    bindings.runtime = cuda_runtime  # type: ignore[attr-defined]
    return {
        "cuda": cuda,
        "cuda.bindings": bindings,
        "cuda.bindings.runtime": cuda_runtime,
        "tensorrt": tensorrt_module.module("tensorrt", tensorrt_version),
        "tensorrt_rtx": tensorrt_module.module("tensorrt_rtx", "1.7.1.116"),
    }
