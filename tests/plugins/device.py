"""The CUDA library on a device, behind the same calls with numpy arrays as every other implementation.

Arrays are copied into memory that host and device share, and back after the call. That is slow and simple: it is for
tests and for ``scripts/gpu_check.py``, which times the kernels and not these copies.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from ctypes import c_char_p, c_float, c_int32, c_size_t, c_void_p
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cpspec_trt.errors import EngineError
from cpspec_trt.kernels.arrays import address
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.native_library import NativeLibrary
from cpspec_trt.kernels.native_structs import BoundTables
from cpspec_trt.kernels.protocol import FilterRows, Logits, Rows

# libcpspec_cuda_checked.so, or SIMULATED; where it is set, the suite runs on the device too.
DEVICE_VARIABLE = "CPSPEC_DEVICE_LIBRARY"
SIMULATED = "simulated"
ARRIVALS = 65536


class Allocator(Protocol):
    """Gives memory that host and device share."""

    def allocate(self, size: int) -> int:
        """Address of ``size`` bytes."""

    def release(self, memory: int) -> None:
        """Give them back."""


class DeviceTools:
    """The functions of plugins/cuda/device_tools.h, with one stream. Each raises ``EngineError`` where it fails."""

    def __init__(self, path: Path) -> None:
        self._handle = ctypes.CDLL(str(path))
        for name in ("error", "name"):
            getattr(self._handle, f"cpspec_device_{name}").restype = c_char_p
        for name in ("allocate", "stream", "end_capture"):
            getattr(self._handle, f"cpspec_device_{name}").restype = c_void_p
        self._handle.cpspec_device_allocate.argtypes = [c_size_t]
        self.stream = self._given("stream")

    @property
    def name(self) -> str:
        """Name and compute capability of the device."""
        return str(self._given("name").decode())

    def allocate(self, size: int) -> int:
        """Address of managed memory."""
        return int(self._given("allocate", size))

    def release(self, memory: int) -> None:
        """Free managed memory."""
        self._done("release", c_void_p(memory))

    def prefetch(self, memory: int, size: int) -> None:
        """Move managed memory to the device."""
        self._done("prefetch", c_void_p(memory), c_size_t(size), c_void_p(self.stream))

    def synchronise(self) -> None:
        """Wait for the stream; a fault of a kernel shows here."""
        self._done("synchronise", c_void_p(self.stream))

    def graph_times(self, enqueue: Callable[[], None], replays: int) -> np.ndarray:
        """Milliseconds of each replay of what ``enqueue`` puts into the stream, float32 [replays]."""
        stream = c_void_p(self.stream)
        self._done("begin_capture", stream)
        enqueue()
        graph = c_void_p(self._given("end_capture", stream))
        times = np.empty(replays, np.float32)
        self._done("time_graph", graph, c_int32(replays), times.ctypes.data_as(ctypes.POINTER(c_float)), stream)
        self._done("release_graph", graph)
        return times

    def _given(self, function: str, *arguments: Any) -> Any:
        value = getattr(self._handle, f"cpspec_device_{function}")(*arguments)
        if value is None:
            self._fail()
        return value

    def _done(self, function: str, *arguments: Any) -> None:
        if getattr(self._handle, f"cpspec_device_{function}")(*arguments):
            self._fail()

    def _fail(self) -> None:
        raise EngineError(f"device: {self._handle.cpspec_device_error().decode()}")


class DeviceLibrary(NativeLibrary):
    """The CUDA library with a stream of its own; a call waits for its kernels.

    Attributes:
        last_call: the C call made last, for replays: operation and arguments. Its structures are those of the
            ``NativeKernels`` that made it, so it holds until that one's next call.
    """

    def __init__(self, path: Path, tools: DeviceTools) -> None:
        super().__init__(path, "make -C plugins cuda-checked")
        self._tools = tools
        self.last_call: tuple[str, tuple[object, ...]] = ("", ())

    def call(self, operation: str, *arguments: object) -> None:
        self.last_call = operation, arguments
        self.enqueue_last()
        self._tools.synchronise()

    def enqueue_last(self) -> None:
        """Make the last call again, without waiting for it."""
        operation, arguments = self.last_call
        status = self._operations[operation](*arguments, self._tools.stream)
        if status:
            self._fail(status)


class SharedMemory:
    """Arrays in memory of an allocator, released together."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._blocks: list[tuple[int, int]] = []

    def copy_of(self, array: np.ndarray) -> np.ndarray:
        """The same array in shared memory; one that is not contiguous as it is, for the kernels to refuse."""
        if not array.flags.c_contiguous:
            return array
        size = max(array.nbytes, 16)
        memory = self._allocator.allocate(size)
        self._blocks.append((memory, size))
        buffer = (ctypes.c_uint8 * size).from_address(memory)
        moved = np.frombuffer(buffer, np.uint8, array.nbytes).view(array.dtype).reshape(array.shape)
        moved[...] = array
        return moved

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Address and size of everything given out."""
        return list(self._blocks)

    def release(self) -> None:
        """Give all of it back; the arrays must not be used again."""
        for memory, _ in self._blocks:
            self._allocator.release(memory)
        self._blocks.clear()


class _SharedTables(BoundTables):
    """Addresses of tables, in shared memory."""

    def __init__(self, memory: SharedMemory) -> None:
        super().__init__()
        self._memory = memory

    def _describe(self, arrays: Sequence[Rows], shape: tuple[int, ...] | None) -> None:
        super()._describe(arrays, shape)
        self._addresses, self._rows = self._memory.copy_of(self._addresses), self._memory.copy_of(self._rows)
        self._struct.tables, self._struct.rows = address(self._addresses), address(self._rows)


class SharedKernels(NativeKernels):
    """``NativeKernels`` over arrays in shared memory, its own working arrays there too."""

    def __init__(self, library: NativeLibrary, memory: SharedMemory) -> None:
        super().__init__(library)
        self._memory = memory
        self._tables, self._caches = _SharedTables(memory), _SharedTables(memory)
        self._arrivals = memory.copy_of(np.zeros(ARRIVALS, np.uint32))
        self._tolerances = memory.copy_of(np.zeros(ARRIVALS, np.float32))

    def sample(self, logits: Logits, filters: FilterRows, *rest: Any) -> None:
        """See ``Kernels.sample``."""
        if self._workspace_fits != logits.shape:
            size = self.library.sample_workspace_bytes(*logits.shape)
            self._workspace = self._memory.copy_of(np.zeros(size, np.uint8))
            self._workspace_fits = logits.shape
        super().sample(logits, filters, *rest)


class DeviceKernels:
    """Every operation of ``NativeKernels``, for arrays that lie anywhere."""

    def __init__(self, library: NativeLibrary, allocator: Allocator) -> None:
        self.library = library
        self._allocator = allocator
        self._kernels = SharedKernels(library, SharedMemory(allocator))

    def __getattr__(self, name: str) -> Callable[..., None]:
        operation = getattr(self._kernels, name)
        return lambda *arguments: self.carry(operation, *arguments)

    def carry(self, call: Callable[..., None], *arguments: object) -> None:
        """Make a call with copies of its arrays in shared memory, then copy back what may be written."""
        memory = SharedMemory(self._allocator)
        moved: list[tuple[np.ndarray, np.ndarray]] = []
        try:
            call(*(_moved(each, memory, moved) for each in arguments))
        finally:
            for original, copy in moved:
                if original.flags.writeable:
                    original[...] = copy
            memory.release()


def _moved(value: object, memory: SharedMemory, moved: list[tuple[np.ndarray, np.ndarray]]) -> object:
    """A copy of an argument whose arrays lie in shared memory; ``moved`` learns of each."""
    if isinstance(value, np.ndarray):
        moved.append((value, memory.copy_of(value)))
        return moved[-1][1]
    if isinstance(value, list | tuple):
        return [_moved(each, memory, moved) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(*(_moved(getattr(value, field.name), memory, moved) for field in fields(value)))
    return value


def device_is_simulated() -> bool:
    """Whether what is called a device are the emulated kernels."""
    return os.environ.get(DEVICE_VARIABLE) == SIMULATED


def device_kernels() -> Any:
    """The CUDA library of ``DEVICE_VARIABLE`` on its first device, as if it were a ``NativeKernels``."""
    if device_is_simulated():
        from tests.plugins.simulated_device import simulated_kernels

        return simulated_kernels()
    path = Path(os.environ[DEVICE_VARIABLE])
    tools = DeviceTools(path)
    return DeviceKernels(DeviceLibrary(path, tools), tools)
