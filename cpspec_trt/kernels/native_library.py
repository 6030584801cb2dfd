"""A compiled library of kernels: found by path, checked for its version, its functions declared.

The contract is ``plugins/include/cpspec/kernels.h``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import NoReturn

from cpspec_trt.errors import CpspecError, EngineError, UnsupportedError, UsageError

ABI_VERSION = 3

_FAULTS: dict[int, type[CpspecError]] = {1: UsageError, 2: UnsupportedError, 3: EngineError}


_P, _I, _L = c_void_p, c_int32, c_int64

# Arguments of every operation, the stream last. Structures are passed by address.
OPERATIONS: dict[str, tuple[type, ...]] = {
    "filter": (_P, _I, _L, _L, _P, _P, _P, _P),
    "argmax": (_P, _I, _L, _L, _P, _P, _P, _P),
    "draw": (_P, _L, _L, _P, _P, _P),
    "draw_candidates": (_P, _L, _L, _P, _L, _P, _P, _P),
    "draw_talker": (_P, _I, _L, _L, _P, _P, _P, _L, _P, _P, _P, _P, _P, _P, _P, _P),
    "sample": (_P, _I, _L, _L, _P, _P, _P, _P, _P, _P, c_size_t, _P),
    "grouped_heads": (_P, _P, _P, _P),
    "draft": (_P, _P, _P, _P, _P, _P, _P, _P, _P, _P),
    "score": (_P, _P, _P, _P, _P, _P, _P, _P),
    "build_verify_input": (_P, _P, _P, _L, _P, _P, _P),
    "build_tree_input": (_P, _P, _P, _L, _P, _P, _P),
    "accept_greedy": (_P, _P, _P, _P, _P, _P, _P),
    "accept_rejection": (_P, _P, _L, _P, _P, _P, _P, _P, _P, _P),
    "accept_block": (_P, _P, _L, _P, _P, _P, _P, _P, _P, _P),
    "accept_coupled": (_P, _L, _P, _P, _P, _P, _P, _P, _P, _P),
    "accept_tree": (_P, _L, _P, _P, _P, _P, _P, _P, _L, _P, _P, _P, _P),
    "accept_commit_tree": (_P, _L, _P, _P, _P, _P, _L, _P, _P, _P, _P, _P, _L, _P, _P, _P, _P),
    "accept_commit": (_P, _P, _L, _P, _P, _P, _P, _L, _P, _P, _I, _P, _P, _P, _P, _P),
    "copy_accepted_rows": (_P, _L, _I, _L, _L, _L, _L, _P, _P, _P, _L, _P, _P),
    "gather_codec_embeddings": (_P, _P, _P, _L, _P, _P),
    "sum_codec_embeddings": (_P, _P, _L, _P, _P),
    "philox": (_P, _P, _L, _P, _P),
    "token_words": (_P, _P, _L, _P, _P),
    "noise": (_P, _L, _P, _P, _P),
    "evaluate": (_I, _P, _L, _P, _P),
}


class NativeLibrary:
    """A loaded library.

    Attributes:
        path: where it was loaded from.
        implementation: what it says it is, for example ``"cpu avx512"``.
    """

    def __init__(self, path: Path, rebuild: str) -> None:
        """Load a library and declare its functions.

        Args:
            path: the shared object.
            rebuild: the command that builds it, for the messages.

        Raises:
            EngineError: it is missing, cannot be loaded or has another ABI version.
        """
        if not path.is_file():
            raise EngineError(f"{path}: the kernels' library is missing; build it with: {rebuild}")
        try:
            self._handle = ctypes.CDLL(str(path))
            version = int(self._handle.cpspec_abi_version())
        except (OSError, AttributeError) as fault:
            raise EngineError(
                f"{path}: the kernels' library does not load ({fault}); build it with: {rebuild}"
            ) from None
        if version != ABI_VERSION:
            raise EngineError(
                f"{path}: the kernels' library has ABI version {version}, this release needs {ABI_VERSION}; "
                f"build it again with: {rebuild}"
            )
        self.path = path
        self._declare()

    @property
    def implementation(self) -> str:
        """What runs, for example ``"cpu avx512"``."""
        return str(self._implementation().decode())

    @property
    def launches(self) -> int:
        """Kernels this thread has launched so far; a CPU library counts operations."""
        return int(self._launches())

    def call(self, operation: str, *arguments: object) -> None:
        """Run an operation.

        Args:
            operation: its name without the prefix.
            arguments: as in the header, without the stream: host libraries have none.

        Raises:
            UsageError: an argument cannot be right.
            UnsupportedError: the library does not do this, for example for so large a vocabulary.
            EngineError: a kernel could not be launched.
        """
        status = self._operations[operation](*arguments, None)
        if status:
            self._fail(status)

    def sample_workspace_bytes(self, rows: int, vocabulary: int) -> int:
        """Bytes that ``sample`` needs for these sizes."""
        return int(self._workspace_bytes(rows, vocabulary))

    def use_level(self, name: str) -> None:
        """Use another instruction set than the best one (CPU library; for tests and measurements).

        Raises:
            UnsupportedError: this machine or this library does not have it.
        """
        status = self._handle.cpspec_cpu_use_level(name.encode())
        if status:
            self._fail(status)

    def _fail(self, status: int) -> NoReturn:
        raise _FAULTS[status](self._last_error().decode())

    def _declare(self) -> None:
        handle = self._handle
        self._operations: dict[str, Callable[..., int]] = {}
        for name, arguments in OPERATIONS.items():
            function = getattr(handle, f"cpspec_{name}")
            function.restype = c_int32
            function.argtypes = arguments
            self._operations[name] = function
        self._implementation = handle.cpspec_implementation
        self._implementation.restype = c_char_p
        self._last_error = handle.cpspec_last_error
        self._last_error.restype = c_char_p
        self._launches = handle.cpspec_launches
        self._launches.restype = c_uint64
        self._workspace_bytes = handle.cpspec_sample_workspace_bytes
        self._workspace_bytes.restype = c_size_t
        self._workspace_bytes.argtypes = (c_int64, c_int64)
