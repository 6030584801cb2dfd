"""The CUDA kernels on the CPU, as ``NativeKernels``."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.native_library import NativeLibrary
from tests.plugins.building import make

# Another build of the same library: under sanitizers, or with a fault put in.
LIBRARY_VARIABLE = "CPSPEC_EMULATED_LIBRARY"
# "seed:threads", for every library of the process.
SCHEDULE_VARIABLE = "CPSPEC_EMULATED_SCHEDULE"


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the emulation runs a kernel.

    Attributes:
        seed: of the order of threads and blocks; 0 keeps the natural one.
        threads: of a block, 128 or 256.
    """

    seed: int
    threads: int


SCHEDULES = (Schedule(0, 256), Schedule(1, 128), Schedule(2, 256), Schedule(3, 128))


class EmulatedLibrary(NativeLibrary):
    """The emulated library with a schedule of its own; shared memory is poisoned when a block starts."""

    def __init__(self, path: Path, schedule: Schedule) -> None:
        super().__init__(path, "make -C plugins emulated")
        self.schedule = schedule
        self._configure = ctypes.CDLL(str(path)).cpspec_emulation_configure
        self._configure.restype = None
        self._configure.argtypes = [ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint32]

    def call(self, operation: str, *arguments: object) -> None:
        self._configure(self.schedule.seed, 1, self.schedule.threads)
        super().call(operation, *arguments)


def emulated_kernels(schedule: Schedule) -> NativeKernels:
    """The emulated kernels under a schedule, unless the process runs under another."""
    if chosen := os.environ.get(SCHEDULE_VARIABLE):
        seed, threads = chosen.split(":")
        schedule = Schedule(int(seed), int(threads))
    other = os.environ.get(LIBRARY_VARIABLE)
    path = Path(other) if other else make("emulated") / "libcpspec_emulated.so"
    return NativeKernels(EmulatedLibrary(path, schedule))
