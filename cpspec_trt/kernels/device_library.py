"""The CUDA library: where it is found, and calls that only enqueue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from cpspec_trt.errors import EngineError
from cpspec_trt.kernels.native_library import NativeLibrary

NAME = "libcpspec_cuda.so"
VARIABLE = "CPSPEC_CUDA_LIBRARY"
_BUILD = "make plugin"
_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parents[1]


class StreamLibrary(Protocol):
    """A library whose operations are put into a stream."""

    @property
    def implementation(self) -> str:
        """What runs."""
        ...

    @property
    def launches(self) -> int:
        """Kernels this thread has launched so far."""
        ...

    def sample_workspace_bytes(self, rows: int, vocabulary: int) -> int:
        """Bytes that ``sample`` needs for these sizes."""
        ...

    def call(self, operation: str, *arguments: object, stream: int) -> None:
        """Enqueue an operation.

        Raises:
            UsageError: an argument cannot be right.
            UnsupportedError: the library does not do this, for example for so large a vocabulary.
            EngineError: a kernel could not be launched.
        """
        ...


class DeviceLibrary(NativeLibrary):
    """``libcpspec_cuda.so`` (see ``StreamLibrary``)."""

    def call(self, operation: str, *arguments: object, stream: int | None = None) -> None:
        """See ``StreamLibrary.call``."""
        status = self._operations[operation](*arguments, stream)
        if status:
            self._fail(status)


def open_device_library() -> StreamLibrary:
    """The CUDA kernels of this installation.

    Looked for where the environment variable ``CPSPEC_CUDA_LIBRARY`` says, beside the CPU kernels in the package,
    and in a checkout's ``build/plugins/cuda-*``, in this order; of several builds there, the one made last.

    Raises:
        EngineError: there is none, or it does not load or does not fit this release; says how to build it.
    """
    return DeviceLibrary(_found(), _BUILD)


def _found() -> Path:
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    packaged = _PACKAGE / "_native" / NAME
    if packaged.is_file():
        return packaged
    built = sorted((_CHECKOUT / "build" / "plugins").glob(f"cuda-*/{NAME}"), key=lambda path: path.stat().st_mtime)
    if not built:
        raise EngineError(
            f"{NAME}: the CUDA kernels are neither in {packaged.parent} nor in {_CHECKOUT / 'build' / 'plugins'}; "
            f"build them in a checkout with: {_BUILD}, or name the file by {VARIABLE}"
        )
    return built[-1]
