"""The weights of a lowered graph: converted in memory, or from one file to another a block at a time."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.graphs.authoring import DATA_ALIGNMENT

_DTYPES = {
    TensorProto.FLOAT: np.dtype("<f4"),
    TensorProto.FLOAT16: np.dtype("<f2"),
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
}
_NAMES = {TensorProto.FLOAT16: "fp16", TensorProto.BFLOAT16: "bf16"}
_BLOCK_ELEMENTS = 1 << 22  # 16 MiB of float32

Floats = NDArray[np.float32]
Parts = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Rounded:
    """How many values of weights were rounded to a lower precision, and how many of them became 0 by it."""

    values: int
    flushed: int


class _Conversion:
    """Rounds weights and counts."""

    def __init__(self) -> None:
        self._values = self._flushed = 0

    @property
    def counts(self) -> Rounded:
        return Rounded(self._values, self._flushed)

    def convert(self, name: str, block: Floats, element_type: int) -> NDArray[Any]:
        """``block`` of the weight ``name`` rounded to ``element_type``, to nearest, ties to even.

        Raises:
            EngineError: a value beyond the range of the type.
        """
        if element_type == TensorProto.FLOAT:
            return block
        with np.errstate(over="ignore"):
            low = block.astype(_DTYPES[element_type])
        beyond = np.isinf(low) & np.isfinite(block)
        if beyond.any():
            worst = float(block[beyond][np.abs(block[beyond]).argmax()])
            kind = _NAMES[element_type]
            raise EngineError(
                f"weight {name!r} holds {worst:g}, beyond the range of {kind}; "
                f"build with --precision {'bf16' if kind == 'fp16' else 'fp32'}"
            )
        self._values += block.size
        self._flushed += int(np.count_nonzero((low == 0) & (block != 0)))
        return low


def convert_in_memory(
    model: onnx.ModelProto, types: Mapping[str, int], parts: Parts, source: onnx.ModelProto
) -> tuple[onnx.ModelProto, Rounded]:
    """A model that holds its weights, with each of the type that ``types`` (by name) gives it.

    Args:
        model: the lowered graph.
        types: the element type that each weight is to get; a weight without one keeps its own.
        parts: for weights that the lowering put together: the weights of ``source`` in them, along a first axis.
        source: the graph that ``model`` was made of, holding its weights.

    Raises:
        EngineError: a value beyond the range of its type.
        UsageError: a weight lies outside ``source``.
    """
    converted, conversion = onnx.ModelProto(), _Conversion()
    converted.CopyFrom(model)
    originals = _by_name(source)
    for tensor in converted.graph.initializer:
        names = parts.get(tensor.name)
        if names is None and types.get(tensor.name, tensor.data_type) == tensor.data_type:
            continue
        arrays = [_held(originals.get(name, tensor)) for name in names or (tensor.name,)]
        array = np.stack(arrays) if names else arrays[0]
        low = conversion.convert(tensor.name, array, types.get(tensor.name, tensor.data_type))
        tensor.CopyFrom(numpy_helper.from_array(low, tensor.name))
    return converted, conversion.counts


def write_converted(
    model: onnx.ModelProto,
    types: Mapping[str, int],
    parts: Parts,
    source: onnx.ModelProto,
    directory: Path,
    target: Path,
) -> Rounded:
    """Write ``target`` and its external data ``<target>.data``, check both, then move them into place.

    Memory holds one block of one weight at a time.

    Args:
        model: as for ``convert_in_memory``.
        types: as for ``convert_in_memory``.
        parts: as for ``convert_in_memory``.
        source: the graph that ``model`` was made of; its large weights lie outside, as float32.
        directory: where ``source`` lies.
        target: its directory is made if missing.

    Raises:
        EngineError: a value beyond the range of its type, or a file of weights that ends too early.
        onnx.checker.ValidationError: the graph breaks a rule of ONNX.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    data_name, conversion = f"{target.name}.data", _Conversion()
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
        graph, data = Path(scratch) / target.name, Path(scratch) / data_name
        written = onnx.ModelProto()
        written.CopyFrom(model)
        originals = _by_name(source)
        with data.open("wb") as stream:
            for tensor in written.graph.initializer:
                wanted = types.get(tensor.name, tensor.data_type)
                if tensor.data_location == TensorProto.EXTERNAL:
                    sources = [originals[name] for name in parts.get(tensor.name, (tensor.name,))]
                    blocks = (block for part in sources for block in _blocks(part, directory))
                    _write_weight(tensor, wanted, blocks, stream, conversion)
                elif wanted != tensor.data_type:
                    low = conversion.convert(tensor.name, numpy_helper.to_array(tensor), wanted)
                    tensor.CopyFrom(numpy_helper.from_array(low, tensor.name))
            stream.flush()
            os.fsync(stream.fileno())
        with graph.open("wb") as stream:
            stream.write(written.SerializeToString(deterministic=True))
            stream.flush()
            os.fsync(stream.fileno())
        onnx.checker.check_model(str(graph), full_check=True)
        os.replace(data, target.parent / data_name)
        os.replace(graph, target)
    return conversion.counts


def _by_name(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in model.graph.initializer}


def _held(tensor: onnx.TensorProto) -> Floats:
    if tensor.data_location == TensorProto.EXTERNAL:
        raise UsageError(f"weight {tensor.name!r} lies outside the graph; lower the file that holds it (lower_file)")
    array: Floats = numpy_helper.to_array(tensor)
    return array


def _write_weight(
    tensor: onnx.TensorProto, wanted: int, blocks: Iterable[Floats], stream: BinaryIO, conversion: _Conversion
) -> None:
    stream.write(b"\0" * (-stream.tell() % DATA_ALIGNMENT))
    offset = stream.tell()
    for block in blocks:
        stream.write(conversion.convert(tensor.name, block, wanted).tobytes())
    tensor.data_type = wanted
    del tensor.external_data[:]
    for key, value in (("location", Path(stream.name).name), ("offset", offset), ("length", stream.tell() - offset)):
        tensor.external_data.add(key=key, value=str(value))


def _blocks(tensor: onnx.TensorProto, directory: Path) -> Iterator[Floats]:
    """The values of an external float32 weight in order, in parts; only the part at hand is in memory."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    path, remaining = directory / fields["location"], math.prod(tensor.dims)
    with path.open("rb") as stream:
        stream.seek(int(fields.get("offset", 0)))
        while remaining:
            block = np.fromfile(stream, "<f4", min(remaining, _BLOCK_ELEMENTS))
            if not len(block):
                raise EngineError(f"{path}: is truncated; export again with cpspec-export CHECKPOINT ONNX_DIR")
            remaining -= len(block)
            yield block
