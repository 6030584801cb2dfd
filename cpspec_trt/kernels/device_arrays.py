"""Groups of device arrays as the C interface takes them: checked once, then structures that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure
from dataclasses import dataclass

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.devices.device import Device
from cpspec_trt.errors import UsageError
from cpspec_trt.kernels.arrays import FLOAT32, FLOAT_CODES, INT32, INT64, UINT32, UINT64
from cpspec_trt.kernels.native_structs import (
    DraftsStruct,
    FilterRowsStruct,
    FrameStateStruct,
    HeadRowsStruct,
    HeadsStruct,
    NoiseRowsStruct,
    TablesStruct,
    TreesStruct,
)


def located(name: str, array: DeviceArray, dtype: np.dtype, shape: tuple[int, ...]) -> int | None:
    """The address of an array that has to have this dtype and shape; None where it has no element.

    Raises:
        UsageError: it has not.
    """
    if array.dtype != dtype or array.shape != shape:
        raise UsageError(
            f"kernels: {name} must be a {dtype} array of shape {shape} on the device, "
            f"not a {array.dtype} array of shape {array.shape}"
        )
    return array.address if array.nbytes else None


def float_code(name: str, array: DeviceArray) -> int:
    """``cpspec_dtype`` of an array.

    Raises:
        UsageError: it is neither float32, float16 nor bfloat16.
    """
    code = FLOAT_CODES.get(array.dtype)
    if code is None:
        raise UsageError(f"kernels: {name} must be float32, float16 or bfloat16, not {array.dtype}")
    return code


@dataclass(frozen=True, slots=True)
class DeviceFilters:
    """``FilterRows`` on the device: float32, int32 and float32 [R]."""

    temperature: DeviceArray
    top_k: DeviceArray
    top_p: DeviceArray

    def struct(self, rows: int) -> Structure:
        """``cpspec_filter_rows``."""
        found = FilterRowsStruct()
        found.temperature = located("temperature", self.temperature, FLOAT32, (rows,))
        found.top_k = located("top_k", self.top_k, INT32, (rows,))
        found.top_p = located("top_p", self.top_p, FLOAT32, (rows,))
        return found


@dataclass(frozen=True, slots=True)
class DeviceNoise:
    """Where the noise of each row comes from: uint64, uint32 and uint32 [R]."""

    seeds: DeviceArray
    streams: DeviceArray
    frames: DeviceArray

    def struct(self, rows: int) -> Structure:
        """``cpspec_noise_rows``."""
        found = NoiseRowsStruct()
        found.seeds = located("seeds", self.seeds, UINT64, (rows,))
        found.streams = located("streams", self.streams, UINT32, (rows,))
        found.frames = located("frames", self.frames, UINT32, (rows,))
        return found


@dataclass(frozen=True, slots=True)
class DeviceHeadRows:
    """Which head is applied to which hidden row.

    Attributes:
        hidden: [M, H], any float type.
        hidden_rows: int64 [R].
        head_rows: int64 [R]; -1 makes a row absent, which is reported as not finite.
    """

    hidden: DeviceArray
    hidden_rows: DeviceArray
    head_rows: DeviceArray

    @property
    def count(self) -> int:
        """R."""
        return self.head_rows.shape[0]

    def struct(self, width: int) -> Structure:
        """``cpspec_head_rows`` over hidden rows of that width."""
        found, rows = HeadRowsStruct(), self.hidden.shape[0]
        found.hidden = located("hidden", self.hidden, self.hidden.dtype, (rows, width))
        found.dtype, found.hidden_count, found.count = float_code("hidden", self.hidden), rows, self.count
        found.hidden_rows = located("hidden_rows", self.hidden_rows, INT64, (self.count,))
        found.head_rows = located("head_rows", self.head_rows, INT64, (self.count,))
        return found


@dataclass(frozen=True, slots=True)
class DeviceDrafts:
    """The drafts of a round: ``rows`` and ``counts`` int64 [A], ``codes`` int64 [drafts], flat.

    A sequence whose row is -1 is absent. ``codes`` may hold more than the counts come to.
    """

    rows: DeviceArray
    counts: DeviceArray
    codes: DeviceArray

    def struct(self) -> Structure:
        """``cpspec_drafts``."""
        found, sequences = DraftsStruct(), self.rows.shape[0]
        found.rows = located("rows", self.rows, INT64, (sequences,))
        found.counts = located("counts", self.counts, INT64, (sequences,))
        found.codes = located("drafts", self.codes, INT64, self.codes.shape)
        found.sequences = sequences
        return found


@dataclass(frozen=True, slots=True)
class DeviceTrees:
    """The trees of a round, nodes of all sequences flat.

    Attributes:
        rows: int64 [A]; a sequence whose row is -1 is absent.
        nodes: int64 [A].
        parents: int64 [nodes].
        codes: int64 of any shape, what ``places`` index.
        places: int64 [nodes], where each node's code lies; -1 where it does not exist.
    """

    rows: DeviceArray
    nodes: DeviceArray
    parents: DeviceArray
    codes: DeviceArray
    places: DeviceArray

    def struct(self) -> Structure:
        """``cpspec_trees``."""
        found, sequences, total = TreesStruct(), self.rows.shape[0], self.parents.shape[0]
        found.rows = located("rows", self.rows, INT64, (sequences,))
        found.nodes = located("nodes", self.nodes, INT64, (sequences,))
        found.parents = located("parents", self.parents, INT64, (total,))
        found.codes = located("node codes", self.codes, INT64, self.codes.shape)
        found.places = located("places", self.places, INT64, (total,))
        found.sequences = sequences
        return found


class DeviceCaches:
    """KV caches [B, heads, capacity, head size] of one shape and dtype, with the list of their addresses.

    Attributes:
        addresses: uint64 [caches], on the device.
        shape: of each.
        float_code: ``cpspec_dtype`` of their elements.
    """

    def __init__(self, device: Device, caches: Sequence[DeviceArray]) -> None:
        """Describe caches.

        Raises:
            UsageError: they differ in shape or dtype.
        """
        self.shape, dtype = caches[0].shape, caches[0].dtype
        self.float_code = float_code("caches", caches[0])
        found = [located(f"cache {at}", cache, dtype, self.shape) for at, cache in enumerate(caches)]
        self.addresses = device.uploaded(np.array(found, np.uint64))


@dataclass(frozen=True, slots=True)
class DeviceFrameState:
    """Where each row of the batch stands in its frame.

    Attributes:
        codes: int64 [B, columns]; columns beyond the code groups are the caller's own.
        last: int64 [B].
        context: [B, H], any float type.
    """

    codes: DeviceArray
    last: DeviceArray
    context: DeviceArray

    def struct(self) -> Structure:
        """``cpspec_frame_state``."""
        found = FrameStateStruct()
        batch, found.groups = self.codes.shape
        found.batch, found.width = batch, self.context.shape[1]
        found.codes = located("codes", self.codes, INT64, self.codes.shape)
        found.last = located("last", self.last, INT64, (batch,))
        found.context = located("context", self.context, self.context.dtype, (batch, found.width))
        found.dtype = float_code("context", self.context)
        return found


class DeviceTables:
    """Embedding tables [any, T] of one dtype, with the list of their addresses on the device too.

    Attributes:
        width: T.
        dtype: of the tables.
        count: how many.
    """

    def __init__(self, device: Device, tables: Sequence[DeviceArray]) -> None:
        """Describe tables.

        Raises:
            UsageError: they differ in width or dtype.
        """
        self.width, self.dtype, self.count = tables[0].shape[1], tables[0].dtype, len(tables)
        addresses = [
            located(f"table {at}", table, self.dtype, (table.shape[0], self.width)) for at, table in enumerate(tables)
        ]
        self._addresses = device.uploaded(np.array(addresses, np.uint64))
        self._rows = device.uploaded(np.array([table.shape[0] for table in tables], np.int64))
        struct = self._struct = TablesStruct()
        struct.tables, struct.rows = self._addresses.address, self._rows.address
        struct.count, struct.width, struct.dtype = self.count, self.width, float_code("tables", tables[0])

    def struct(self) -> Structure:
        """``cpspec_tables``."""
        return self._struct


def heads_struct(heads: DeviceArray) -> Structure:
    """``cpspec_heads`` of heads [count, V, H]."""
    found = HeadsStruct()
    found.count, found.vocabulary, found.width = heads.shape
    found.weights, found.dtype = located("heads", heads, heads.dtype, heads.shape), float_code("heads", heads)
    return found
