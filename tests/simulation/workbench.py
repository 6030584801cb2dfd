"""A few CUDA calls in short form, for the tests of the simulation itself."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tests.simulation.simulation import Simulation


class Workbench:
    """One stream and the memory it uses.

    Attributes:
        simulation: the open simulation.
        runtime: its CUDA module.
        kinds: ``cudaMemcpyKind``.
        stream: the stream.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.runtime = simulation.runtime
        self.kinds = simulation.runtime.cudaMemcpyKind
        _, self.stream = self.runtime.cudaStreamCreateWithFlags(self.runtime.cudaStreamNonBlocking)
        self._held: dict[int, Any] = {}

    def device(self, size: int) -> int:
        """Address of device memory."""
        _, address = self.runtime.cudaMalloc(size)
        self._held[address] = self.runtime.cudaFree
        return int(address)

    def pinned(self, size: int) -> int:
        """Address of pinned memory."""
        _, address = self.runtime.cudaHostAlloc(size, 0)
        self._held[address] = self.runtime.cudaFreeHost
        return int(address)

    def free(self, address: int) -> None:
        """Free either."""
        self._held.pop(address)(address)

    def upload(self, target: int, values: np.ndarray) -> None:
        """Enqueue a copy of an array to the device."""
        self.runtime.cudaMemcpyAsync(target, values, values.nbytes, self.kinds.cudaMemcpyHostToDevice, self.stream)

    def download(self, target: object, source: int, size: int = 16) -> None:
        """Enqueue a copy from the device."""
        self.runtime.cudaMemcpyAsync(target, source, size, self.kinds.cudaMemcpyDeviceToHost, self.stream)

    def wait(self) -> None:
        """Synchronise."""
        self.runtime.cudaStreamSynchronize(self.stream)

    def view(self, address: int, count: int = 4) -> np.ndarray:
        """Pinned memory as float32."""
        found: np.ndarray = np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))
        return found

    def graph(self, enqueue: Any) -> Any:
        """Capture what ``enqueue`` puts into the stream, and instantiate it."""
        runtime = self.runtime
        runtime.cudaStreamBeginCapture(self.stream, runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal)
        enqueue()
        _, graph = runtime.cudaStreamEndCapture(self.stream)
        _, executable = runtime.cudaGraphInstantiate(graph, 0)
        runtime.cudaGraphDestroy(graph)
        return executable

    def close(self) -> None:
        """Free everything."""
        for address in list(self._held):
            self.free(address)
        self.runtime.cudaStreamDestroy(self.stream)
