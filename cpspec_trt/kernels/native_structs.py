"""The structures of ``plugins/include/cpspec/kernels.h``, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_int32, c_int64, c_void_p

import numpy as np

from cpspec_trt.errors import UsageError
from cpspec_trt.kernels.arrays import address, checked_floats
from cpspec_trt.kernels.protocol import Rows


class FilterRowsStruct(Structure):
    """``cpspec_filter_rows``."""

    _fields_ = (("temperature", c_void_p), ("top_k", c_void_p), ("top_p", c_void_p))


class NoiseRowsStruct(Structure):
    """``cpspec_noise_rows``."""

    _fields_ = (("seeds", c_void_p), ("streams", c_void_p), ("frames", c_void_p))


class HeadsStruct(Structure):
    """``cpspec_heads``."""

    _fields_ = (
        ("weights", c_void_p),
        ("dtype", c_int32),
        ("count", c_int64),
        ("vocabulary", c_int64),
        ("width", c_int64),
    )


class HeadRowsStruct(Structure):
    """``cpspec_head_rows``."""

    _fields_ = (
        ("hidden", c_void_p),
        ("dtype", c_int32),
        ("hidden_count", c_int64),
        ("hidden_rows", c_void_p),
        ("head_rows", c_void_p),
        ("count", c_int64),
    )


class TablesStruct(Structure):
    """``cpspec_tables``."""

    _fields_ = (("tables", c_void_p), ("rows", c_void_p), ("count", c_int64), ("width", c_int64), ("dtype", c_int32))


class DraftsStruct(Structure):
    """``cpspec_drafts``."""

    _fields_ = (("rows", c_void_p), ("counts", c_void_p), ("codes", c_void_p), ("sequences", c_int64))


class FrameStateStruct(Structure):
    """``cpspec_frame_state``."""

    _fields_ = (
        ("codes", c_void_p),
        ("last", c_void_p),
        ("context", c_void_p),
        ("dtype", c_int32),
        ("batch", c_int64),
        ("groups", c_int64),
        ("width", c_int64),
    )


class BoundTables:
    """The addresses of a list of arrays, looked up again only when the list holds other arrays than last time."""

    def __init__(self) -> None:
        self._arrays: tuple[Rows, ...] = ()
        self._addresses = np.empty(0, np.uint64)
        self._rows = np.empty(0, np.int64)
        self._struct = TablesStruct()

    def bind(self, arrays: Sequence[Rows], shape: tuple[int, ...] | None = None) -> TablesStruct:
        """Describe arrays of one dtype.

        Args:
            arrays: embedding tables [any, width], or arrays that all have ``shape``.
            shape: of every array; None for tables, whose rows may differ in number.

        Raises:
            UsageError: an array has another dtype or shape, or is not contiguous.
        """
        if len(arrays) != len(self._arrays) or any(a is not b for a, b in zip(arrays, self._arrays, strict=True)):
            self._describe(arrays, shape)
        return self._struct

    def _describe(self, arrays: Sequence[Rows], shape: tuple[int, ...] | None) -> None:
        self._arrays = ()
        found = []
        for index, array in enumerate(arrays):
            expected = shape if shape is not None else (len(array), arrays[0].shape[-1])
            found.append(checked_floats(f"array {index}", array, expected))
        if len({dtype for _, dtype in found}) != 1:
            raise UsageError("kernels: the arrays of one call must be of one dtype")
        self._addresses = np.array([where for where, _ in found], np.uint64)
        self._rows = np.array([len(array) for array in arrays], np.int64)
        struct = self._struct
        struct.tables, struct.rows = address(self._addresses), address(self._rows)
        struct.count, struct.width, struct.dtype = len(arrays), arrays[0].shape[-1], found[0][1]
        self._arrays = tuple(arrays)
