"""The implementations of ``Kernels`` that the suite runs over, by name.

``oracle`` is the definition. The CPU library stands once per instruction set this machine has; every one of them is
a copy of the file, because a library is loaded once per file and its choice is its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from cpspec_trt.errors import UnsupportedError
from cpspec_trt.kernels.loading import CPU_LIBRARY, REBUILD
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.native_library import NativeLibrary
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import Kernels
from tests.plugins.device import DEVICE_VARIABLE, device_is_simulated, device_kernels
from tests.plugins.emulated import SCHEDULES, emulated_kernels

# Another build of the CPU library, under sanitizers or with a fault put in: the suite runs over it alone.
LIBRARY_VARIABLE = "CPSPEC_CPU_LIBRARY"
OTHER_LIBRARY = os.environ.get(LIBRARY_VARIABLE)
LEVELS = ("avx512", "avx2", "baseline", "neon")


@cache
def cpu_kernels(level: str) -> NativeKernels:
    """The CPU library at a level.

    Raises:
        UnsupportedError: this machine does not have it.
    """
    folder = Path(tempfile.mkdtemp(prefix="cpspec-kernels-"))
    atexit.register(shutil.rmtree, folder)
    library = NativeLibrary(Path(shutil.copy(OTHER_LIBRARY or CPU_LIBRARY, folder)), REBUILD)
    library.use_level(level)
    return NativeKernels(library)


def _available(level: str) -> bool:
    try:
        cpu_kernels(level)
    except UnsupportedError:
        return False
    return True


CPU_LEVELS = tuple(level for level in LEVELS if _available(level))

NATIVE: dict[str, Callable[[], NativeKernels]] = {f"cpu {level}": partial(cpu_kernels, level) for level in CPU_LEVELS}
if DEVICE_VARIABLE in os.environ:
    NATIVE["device"] = device_kernels
IMPLEMENTATIONS: dict[str, Callable[[], Kernels]] = {**NATIVE}
if not OTHER_LIBRARY:
    NATIVE["emulated"] = partial(emulated_kernels, SCHEDULES[1])
    IMPLEMENTATIONS = {"oracle": OracleKernels, **NATIVE}

# Those that can draw a million times: the emulated kernels, bit-equal to them, take a tenth of a millisecond a row.
SLOW = {"emulated", "device"} if device_is_simulated() else {"emulated"}
FAST = {name: make for name, make in IMPLEMENTATIONS.items() if name not in SLOW}
