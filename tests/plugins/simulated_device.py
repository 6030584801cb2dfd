"""A device that is none: the emulated kernels behind what carries arrays to a device, every address checked.

It stands where ``CPSPEC_DEVICE_LIBRARY`` names ``simulated``, so that the suite of scripts/gpu_check.py can be run
without a GPU. It shows that the suite gives a device nothing but its own memory; it shows nothing about a device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np

from cpspec_trt.kernels.native_library import OPERATIONS
from cpspec_trt.kernels.native_structs import TablesStruct
from tests.plugins.device import DeviceKernels
from tests.plugins.emulated import EmulatedLibrary, Schedule, emulated_kernels

SCHEDULE = Schedule(5, 256)


class HostMemory:
    """An allocator that remembers what it gave out."""

    def __init__(self) -> None:
        self.held: dict[int, ctypes.Array[ctypes.c_uint8]] = {}

    def allocate(self, size: int) -> int:
        block = (ctypes.c_uint8 * size)()
        self.held[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def release(self, memory: int) -> None:
        del self.held[memory]

    def holds(self, address: int) -> bool:
        """Whether an address lies in what is given out."""
        return any(begin <= address < begin + len(block) for begin, block in self.held.items())


class CheckedLibrary(EmulatedLibrary):
    """The emulated library; a call with an address outside the memory is an ``AssertionError``."""

    def __init__(self, other: EmulatedLibrary, memory: HostMemory) -> None:
        super().__init__(other.path, other.schedule)
        self._memory = memory

    def call(self, operation: str, *arguments: object) -> None:
        for name, address in _addresses(operation, arguments):
            if address and not self._memory.holds(address):
                raise AssertionError(f"{operation}: {name} is an address that the device cannot reach")
        super().call(operation, *arguments)


def _addresses(operation: str, arguments: tuple[object, ...]) -> Iterator[tuple[str, int]]:
    """Every address that an operation is given, those in structures and in lists of tables too."""
    for index, (kind, value) in enumerate(zip(OPERATIONS[operation], arguments, strict=False)):  # without the stream
        if kind is not ctypes.c_void_p:
            continue
        struct = getattr(value, "_obj", None)  # of byref
        if struct is None:
            yield f"argument {index}", int(value or 0)  # type: ignore[call-overload]
            continue
        for name, field in struct._fields_:
            if field is ctypes.c_void_p:
                yield f"{type(struct).__name__}.{name}", getattr(struct, name) or 0
        if isinstance(struct, TablesStruct):
            listed = (ctypes.c_uint64 * struct.count).from_address(struct.tables)
            yield from ((f"table {table}", address) for table, address in enumerate(listed))
    if operation == "copy_accepted_rows":
        caches = np.frombuffer((ctypes.c_uint64 * int(arguments[1])).from_address(int(arguments[0])), np.uint64)  # type: ignore[call-overload]
        yield from ((f"cache {cache}", int(address)) for cache, address in enumerate(caches))


def simulated_kernels() -> DeviceKernels:
    """The emulated kernels as if they ran on a device."""
    library = emulated_kernels(SCHEDULE).library
    assert isinstance(library, EmulatedLibrary)
    memory = HostMemory()
    return DeviceKernels(CheckedLibrary(library, memory), memory)
