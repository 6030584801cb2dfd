"""Safetensors files: a reader that names what is wrong, and a writer that holds one block at a time.

Floating-point tensors come out as float32 whatever they are stored as (F32, F16, BF16). Files are read
in blocks rather than through one memory map, so a large checkpoint never becomes resident as a whole;
``mapped`` and ``stacked`` give maps where a table is meant to stay on disk.

Format: 8 bytes little-endian header length, a JSON object {name: {dtype, shape, data_offsets}}, then the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from cpspec_trt.errors import CheckpointError, CpspecError
from cpspec_trt.files.atomic import atomic_file
from cpspec_trt.files.json_io import read_json

Array = NDArray[np.float32]
Shape = tuple[int, ...]

StorageType = Literal["F32", "F16", "BF16"]
ITEM_BYTES: Mapping[str, int] = MappingProxyType({"F32": 4, "F16": 2, "BF16": 2})
_BLOCK_ELEMENTS = 1 << 22  # 16 MiB of float32
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where one tensor lies: ``offset`` and ``nbytes`` within ``file``."""

    name: str
    dtype: str
    shape: Shape
    file: Path
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class TensorSource:
    """A float32 tensor to be written; ``stream`` yields its elements in order as one-dimensional blocks."""

    name: str
    shape: Shape
    stream: Callable[[], Iterable[Array]]


class TensorSet:
    """The tensors of one file or of a sharded checkpoint, by name; data is read only when asked for.

    Faults are raised as ``error`` (CheckpointError or EngineError) and name file and tensor.
    """

    def __init__(self, path: Path, entries: Mapping[str, TensorEntry], error: type[CpspecError]) -> None:
        self.path = path
        self.entries = entries
        self._error = error

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def entry(self, name: str, shape: Shape | None = None) -> TensorEntry:
        """The entry of a floating-point tensor, checked against ``shape`` if one is given. Reads no data.

        Raises:
            error: the tensor is missing, is not F32, F16 or BF16, or has another shape.
        """
        found = self.entries.get(name)
        if found is None:
            raise self._error(f"{self.path}: tensor {name!r} is missing; {remedy(self._error)}")
        if found.dtype not in ITEM_BYTES:
            kinds = ", ".join(ITEM_BYTES)
            raise self._error(f"{found.file}: tensor {name!r} has type {found.dtype}, expected one of {kinds}")
        if shape is not None and found.shape != shape:
            message = f"tensor {name!r} has shape {list(found.shape)}, config.json asks for {list(shape)}"
            raise self._error(f"{found.file}: {message}; {remedy(self._error)}")
        return found

    def read(self, name: str, shape: Shape | None = None) -> Array:
        """The whole tensor as a new float32 array. Raises as ``entry``, and if the file ends early."""
        found = self.entry(name, shape)
        result = np.empty(found.shape, np.float32)
        flat, start = result.reshape(-1), 0
        for block in self._blocks(found):
            flat[start : start + block.size] = block
            start += block.size
        return result

    def source(self, name: str, shape: Shape | None = None, rename: str | None = None) -> TensorSource:
        """The tensor as something ``write_tensors`` can copy block by block. Raises as ``entry``, at once."""
        found = self.entry(name, shape)
        return TensorSource(rename or name, found.shape, lambda: self._blocks(found))

    def mapped(self, name: str, shape: Shape | None = None) -> Array:
        """The tensor as a read-only memory map if it is stored as F32, otherwise as ``read`` gives it."""
        found = self.entry(name, shape)
        return self._map(found, found.shape) if _can_map(found) else self.read(name)

    def stacked(self, names: Sequence[str], shape: Shape) -> Array:
        """Tensors of one shape as a single array [len(names), *shape]; a map if they lie one after another in F32."""
        found = [self.entry(name, shape) for name in names]
        ends = [entry.offset + entry.nbytes for entry in found]
        consecutive = all(
            after.file == found[0].file and after.offset == end
            for end, after in zip(ends[:-1], found[1:], strict=True)
        )  # fmt: skip
        if consecutive and all(_can_map(entry) for entry in found):
            return self._map(found[0], (len(found), *shape))
        result = np.empty((len(found), *shape), np.float32)
        for row, name in zip(result, names, strict=True):
            row[...] = self.read(name)
        return result

    def check_length(self, stem: str, count: int) -> None:
        """Refuse a numbered list of tensors (``<stem>.0.…``, …) that is longer than the configuration says.

        Raises:
            error: there is a tensor ``<stem>.N.…`` with N at or above ``count``.
        """
        start = f"{stem}."
        numbers = (name[len(start) :].partition(".")[0] for name in self.entries if name.startswith(start))
        last = max((int(number) for number in numbers if number.isdecimal()), default=-1)
        if last >= count:
            found = f"holds {stem}.{last}, but config.json asks for {count} of them"
            raise self._error(f"{self.path}: {found}; configuration and weights are of different checkpoints")

    def _map(self, first: TensorEntry, shape: Shape) -> Array:
        return np.asarray(np.memmap(first.file, "<f4", "r", first.offset, shape))

    def _blocks(self, entry: TensorEntry) -> Iterator[Array]:
        size = ITEM_BYTES[entry.dtype]
        for start in range(0, math.prod(entry.shape), _BLOCK_ELEMENTS):
            count = min(math.prod(entry.shape) - start, _BLOCK_ELEMENTS)
            raw = self._bytes(entry.file, entry.offset + start * size, count * size)
            if len(raw) != count * size:
                raise _truncated(entry.name, entry.file, self._error)
            yield _to_float32(raw, entry.dtype)

    def _bytes(self, file: Path, offset: int, length: int) -> bytes:
        try:
            with file.open("rb") as stream:
                stream.seek(offset)
                return stream.read(length)
        except OSError as fault:
            raise self._error(f"{file}: cannot read the file: {fault.strerror}") from None


def open_tensors(path: Path, error: type[CpspecError]) -> TensorSet:
    """Read the header of one safetensors file.

    Raises:
        error: no such file, not a safetensors file, or a tensor that reaches beyond the end (it is named).
    """
    return TensorSet(path, _read_header(path, error), error)


def open_sharded_tensors(index: Path, error: type[CpspecError]) -> TensorSet:
    """Read the headers of all shards that ``model.safetensors.index.json`` names.

    Raises:
        error: the index is damaged, or a shard lacks a tensor the index promises.
    """
    shards = shard_names(index, error)
    headers = {shard: _read_header(index.parent / shard, error) for shard in sorted(set(shards.values()))}
    entries: dict[str, TensorEntry] = {}
    for name, shard in shards.items():
        if name not in headers[shard]:
            raise error(f"{index.parent / shard}: tensor {name!r} is missing though {index.name} lists it there")
        entries[name] = headers[shard][name]
    return TensorSet(index, entries, error)


def shard_names(index: Path, error: type[CpspecError]) -> dict[str, str]:
    """``weight_map`` of a shard index: tensor name -> plain file name.

    Raises:
        error: the index is damaged or names a file outside its own directory.
    """
    shards = read_json(index, error, "shard index").get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise error(f"{index}: field 'weight_map' must be an object from tensor names to files; {remedy(error)}")
    for name, shard in shards.items():
        if not isinstance(shard, str) or not shard or Path(shard).name != shard:
            raise error(f"{index}: 'weight_map' sends tensor {name!r} to {shard!r:.60}, which is not a file name")
    return shards


def write_tensors(
    path: Path,
    sources: Sequence[TensorSource],
    dtype: StorageType = "F32",
    metadata: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write tensors in the given order, atomically, holding one block in memory.

    The ``safetensors`` package writes only tensors that are all in memory.

    Args:
        path: the file.
        sources: what to write, float32.
        dtype: how it is stored; F16 and BF16 round to nearest even.
        metadata: the header's ``__metadata__``; left out if empty.

    Raises:
        ValueError: a source yields more or fewer elements than its shape has.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for source in sources:
        end = offset + ITEM_BYTES[dtype] * math.prod(source.shape)
        header[source.name] = {"dtype": dtype, "shape": list(source.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # so that the data can be mapped at its natural alignment
    with atomic_file(path) as temporary, temporary.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for source in sources:
            written = sum(stream.write(_encoded(block, dtype).data) for block in source.stream())
            if written != ITEM_BYTES[dtype] * math.prod(source.shape):
                raise ValueError(f"{source.name!r} gave {written} bytes of {dtype} for shape {list(source.shape)}")


def remedy(error: type[CpspecError]) -> str:
    """What to do about a damaged file, for the end of a message."""
    if issubclass(error, CheckpointError):
        return "download the checkpoint again"
    return "export it again with cpspec-export"


def _read_header(path: Path, error: type[CpspecError]) -> dict[str, TensorEntry]:
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            raw = stream.read(length) if length <= min(size, _MAX_HEADER_BYTES) else b""
    except FileNotFoundError:
        raise error(f"{path}: the file does not exist; {remedy(error)}") from None
    except OSError as fault:
        raise error(f"{path}: cannot read the file: {fault.strerror}") from None
    try:
        header = json.loads(raw)
        items = [(str(name), value) for name, value in header.items() if name != "__metadata__"]
    except (ValueError, AttributeError, RecursionError):
        raise error(f"{path}: not a safetensors file, or its header is damaged; {remedy(error)}") from None
    entries = {name: _entry(name, value, path, 8 + length, error) for name, value in items}
    for entry in entries.values():
        if entry.offset + entry.nbytes > size:
            raise _truncated(entry.name, path, error)
    for before, after in pairwise(sorted(entries.values(), key=lambda entry: (entry.offset, entry.nbytes))):
        if before.offset + before.nbytes > after.offset:
            raise error(f"{path}: tensors {before.name!r} and {after.name!r} share bytes of data; {remedy(error)}")
    return entries


def _entry(name: str, value: Any, path: Path, data_start: int, error: type[CpspecError]) -> TensorEntry:
    try:
        dtype, shape, (begin, end) = str(value["dtype"]), tuple(value["shape"]), value["data_offsets"]
        plain = all(type(number) is int and number >= 0 for number in (*shape, begin, end - begin))
    except (TypeError, KeyError, ValueError):
        plain = False
    if not plain:
        raise error(f"{path}: the header entry of tensor {name!r} is damaged; {remedy(error)}")
    if dtype in ITEM_BYTES and end - begin != math.prod(shape) * ITEM_BYTES[dtype]:
        message = f"tensor {name!r} has {end - begin} bytes of data, which is not {dtype} {list(shape)}"
        raise error(f"{path}: {message}; {remedy(error)}")
    return TensorEntry(name, dtype, shape, path, data_start + begin, end - begin)


def _truncated(name: str, path: Path, error: type[CpspecError]) -> CpspecError:
    return error(f"{path}: tensor {name!r} is truncated: the file ends before its data does; {remedy(error)}")


def _can_map(entry: TensorEntry) -> bool:
    return entry.dtype == "F32" and entry.offset % 4 == 0 and entry.nbytes > 0


def _encoded(values: Array, dtype: StorageType) -> NDArray[Any]:
    """Values as stored: little-endian and contiguous."""
    if dtype != "BF16":
        return np.ascontiguousarray(values, {"F32": "<f4", "F16": "<f2"}[dtype])
    return np.ascontiguousarray(values).astype(ml_dtypes.bfloat16).view("<u2")


def _to_float32(raw: bytes, dtype: str) -> Array:
    if dtype == "F32":
        return np.frombuffer(raw, "<f4")
    if dtype == "F16":
        return np.frombuffer(raw, "<f2").astype(np.float32)
    bits = np.frombuffer(raw, "<u2").astype(np.uint32)  # BF16 is the upper half of a float32
    np.left_shift(bits, 16, out=bits)
    return bits.view(np.float32)
