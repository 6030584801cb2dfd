"""The structures of ``plugins/include/cpspec/kernels.h``, field by field, and how arrays are put into them."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, byref, c_int32, c_int64, c_void_p

import numpy as np

from cpspec_trt.errors import UsageError
from cpspec_trt.kernels.arrays import FLOAT32, INT32, INT64, UINT32, UINT64, address, checked, checked_floats, optional
from cpspec_trt.kernels.protocol import I64, U32, U64, FilterRows, Rows


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


class TreesStruct(Structure):
    """``cpspec_trees``."""

    _fields_ = (
        ("rows", c_void_p),
        ("nodes", c_void_p),
        ("parents", c_void_p),
        ("codes", c_void_p),
        ("places", c_void_p),
        ("sequences", c_int64),
    )


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


class Arguments:
    """One structure of each kind, filled for a call and good until the next; every method returns references."""

    def __init__(self) -> None:
        self._filters = FilterRowsStruct()
        self._filled: FilterRows | None = None
        self._noise = NoiseRowsStruct()
        self._heads = HeadsStruct()
        self._head_rows = HeadRowsStruct()
        self._drafts = DraftsStruct()
        self._trees = TreesStruct()
        self._state = FrameStateStruct()

    def filters(self, filters: FilterRows, rows: int) -> object:
        """``cpspec_filter_rows`` of so many rows."""
        # The Talker and the Thinker pass the same object for every token.
        if filters is not self._filled or rows != len(filters.top_k):
            self._filled = None
            self._filters.temperature = checked("temperature", filters.temperature, FLOAT32, (rows,))
            self._filters.top_k = checked("top_k", filters.top_k, INT32, (rows,))
            self._filters.top_p = checked("top_p", filters.top_p, FLOAT32, (rows,))
            self._filled = filters
        return byref(self._filters)

    def noise(self, seeds: U64, streams: U32, frames: U32, rows: int) -> object:
        """``cpspec_noise_rows`` of so many rows."""
        self._noise.seeds = checked("seeds", seeds, UINT64, (rows,))
        self._noise.streams = checked("streams", streams, UINT32, (rows,))
        self._noise.frames = checked("frames", frames, UINT32, (rows,))
        return byref(self._noise)

    def heads(self, hidden: Rows, hidden_rows: I64, head_rows: I64, heads: Rows) -> tuple[object, object]:
        """``cpspec_heads`` and ``cpspec_head_rows``."""
        rows = len(hidden_rows)
        count, vocabulary, width = heads.shape
        own, source = self._heads, self._head_rows
        own.weights, own.dtype = checked_floats("heads", heads, (count, vocabulary, width))
        own.count, own.vocabulary, own.width = count, vocabulary, width
        source.hidden, source.dtype = checked_floats("hidden", hidden, (len(hidden), width))
        source.hidden_count = len(hidden)
        source.hidden_rows = checked("hidden_rows", hidden_rows, INT64, (rows,))
        source.head_rows = checked("head_rows", head_rows, INT64, (rows,))
        source.count = rows
        return byref(own), byref(source)

    def drafts(self, rows: I64 | None, counts: I64, drafts: I64) -> object:
        """``cpspec_drafts``; ``rows`` is None where the operation does not read them."""
        sequences = len(counts)
        self._drafts.rows = None if rows is None else checked("rows", rows, INT64, (sequences,))
        self._drafts.counts = checked("counts", counts, INT64, (sequences,))
        self._drafts.codes = checked("drafts", drafts, INT64, (int(counts.sum()),))
        self._drafts.sequences = sequences
        return byref(self._drafts)

    def trees(self, rows: I64 | None, nodes: I64, parents: I64, codes: I64, places: I64 | None = None) -> object:
        """``cpspec_trees``; ``rows`` is None where the operation does not read them."""
        sequences, total = len(nodes), int(nodes.sum())
        self._trees.rows = None if rows is None else checked("rows", rows, INT64, (sequences,))
        self._trees.nodes = checked("nodes", nodes, INT64, (sequences,))
        self._trees.parents = checked("parents", parents, INT64, (total,))
        self._trees.codes = checked("node_codes", codes, INT64, (total,) if places is None else codes.shape)
        self._trees.places = optional("places", places, INT64, (total,))
        self._trees.sequences = sequences
        return byref(self._trees)

    def state(self, codes: I64, last: I64, context: Rows | None = None) -> object:
        """``cpspec_frame_state``; ``context`` is None where the operation does not touch it."""
        state = self._state
        batch, groups = codes.shape
        state.batch, state.groups = batch, groups
        state.codes = checked("codes", codes, INT64, (batch, groups))
        state.last = checked("last", last, INT64, (batch,))
        state.context, state.dtype, state.width = None, 0, 1
        if context is not None:
            state.width = context.shape[1]
            state.context, state.dtype = checked_floats("context", context, (batch, context.shape[1]))
        return byref(state)


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
