"""Which kernels the runtime uses: the CPU library that the installation built."""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.native_library import NativeLibrary

CPU_LIBRARY = Path(__file__).parent / "_native" / "libcpspec_cpu.so"
REBUILD = "pip install . (or, in a checkout, make kernels)"


def default_kernels() -> NativeKernels:
    """The native CPU kernels.

    Raises:
        EngineError: the library is missing, does not load or does not fit this release; says how to build it.
    """
    return NativeKernels(NativeLibrary(CPU_LIBRARY, REBUILD))
