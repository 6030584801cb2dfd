"""Weight-only int8: the constant matrices of a decoder as ONNX Runtime's ``MatMulNBits`` reads them.

A matrix [K, N] is cut into blocks of 32 numbers along K, one column at a time. A block becomes one scale and 32 bytes:

    scale = max |w| / 127,   byte = round(w / scale) + 128

so 128 means zero and the block is symmetric about it. The operator's accuracy level 4 rounds the activations in the
same way, block by block, and adds up integers inside a block; every row comes out with the same bits however many rows
a pass has. Routers of experts stay fp32: they are small, and rounding would decide between experts of nearly equal
probability.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from cpspec_trt.graphs.authoring import DATA_ALIGNMENT

BLOCK = 32
ZERO_POINT = 128  # the operator's own where it is given none
_LARGEST = np.float32(127)
_ACCURACY_LEVEL = 4  # int8 activations; level 0 is many times slower, and its rows depend on the number of rows
_DOMAIN = "com.microsoft"
_ROUTER = re.compile(r"\.mlp\.(gate|shared_expert_gate)\.weight$")
_ROWS_AT_ONCE = 16 * BLOCK

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Quantized:
    """What ``write_int8`` did: matrices that are int8 now, their parameters, and matrices that stayed fp32."""

    matrices: int
    parameters: int
    kept: int


def quantize(weight: Floats) -> tuple[Bytes, Floats]:
    """A matrix in blocks of int8.

    Args:
        weight: [K, N]; K is padded with zeros to whole blocks. It may be mapped: a few rows are read at a time.

    Returns:
        Bytes [N, blocks, 32] and scales float32 [N, blocks].
    """
    length, columns = weight.shape
    blocks = math.ceil(length / BLOCK)
    packed = np.empty((columns, blocks, BLOCK), np.uint8)
    scales = np.empty((columns, blocks), np.float32)
    for start in range(0, length, _ROWS_AT_ONCE):
        rows = np.asarray(weight[start : start + _ROWS_AT_ONCE], np.float32)
        rows = np.pad(rows, ((0, -len(rows) % BLOCK), (0, 0))).reshape(-1, BLOCK, columns)
        scale = np.abs(rows).max(axis=1) / _LARGEST  # [blocks here, N]
        codes = np.divide(rows, scale[:, None], out=np.zeros_like(rows), where=scale[:, None] > 0)
        here = slice(start // BLOCK, start // BLOCK + len(rows))
        packed[:, here] = (np.rint(codes) + ZERO_POINT).astype(np.uint8).transpose(2, 0, 1)
        scales[:, here] = scale.T
    return packed, scales


def write_int8(model: onnx.ModelProto, directory: Path, target: Path) -> Quantized:
    """Write a decoder with int8 matrices to ``target``, its weights to ``<target>.data``, one after the other.

    Args:
        model: the fp32 graph; its large weights lie outside, in ``directory``. It stays as it is.
        directory: of the export.
        target: the graph to write.
    """
    written = onnx.ModelProto()
    written.CopyFrom(model)
    graph = written.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    chosen = {name for node in graph.node if (name := _matrix(node, weights)) and not _ROUTER.search(name)}
    kept = sum(bool(name := _matrix(node, weights)) and name not in chosen for node in graph.node)
    parameters = sum(math.prod(weights[name].dims) for name in chosen)
    for node in graph.node:
        if (name := _matrix(node, weights)) in chosen:
            node.CopyFrom(_product(node, *weights[name].dims))
    with (target.parent / f"{target.name}.data").open("wb") as stream:
        tensors: list[onnx.TensorProto] = []
        for tensor in graph.initializer:
            tensors.extend(_stored(tensor, tensor.name in chosen, directory, stream))
        stream.flush()
        os.fsync(stream.fileno())
    del graph.initializer[:]
    graph.initializer.extend(tensors)
    if _DOMAIN not in {opset.domain for opset in written.opset_import}:
        written.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    target.write_bytes(written.SerializeToString(deterministic=True))
    return Quantized(len(chosen), parameters, kept)


def _matrix(node: onnx.NodeProto, weights: dict[str, onnx.TensorProto]) -> str:
    """Name of the constant matrix that a node multiplies with; empty if there is none."""
    tensor = weights.get(node.input[1]) if node.op_type == "MatMul" else None
    external = tensor is not None and tensor.data_location == TensorProto.EXTERNAL
    return tensor.name if tensor is not None and external and len(tensor.dims) == 2 else ""


def _product(node: onnx.NodeProto, length: int, columns: int) -> onnx.NodeProto:
    x, name = node.input
    attributes = {"K": length, "N": columns, "bits": 8, "block_size": BLOCK, "accuracy_level": _ACCURACY_LEVEL}
    inputs = [x, f"{name}.int8", f"{name}.scales"]
    return helper.make_node("MatMulNBits", inputs, list(node.output), node.name, domain=_DOMAIN, **attributes)


def _stored(tensor: onnx.TensorProto, quantized: bool, directory: Path, stream: BinaryIO) -> Iterator[onnx.TensorProto]:
    """The tensors that take a tensor's place, their values written to ``stream``."""
    if tensor.data_location != TensorProto.EXTERNAL:
        yield tensor
        return
    values = _mapped(tensor, directory)
    if not quantized:
        yield _external(tensor.name, values, stream)
        return
    packed, scales = quantize(values)
    yield _external(f"{tensor.name}.int8", packed, stream)
    yield _external(f"{tensor.name}.scales", scales, stream)


def _mapped(tensor: onnx.TensorProto, directory: Path) -> Floats:
    fields = {entry.key: entry.value for entry in tensor.external_data}
    path, offset = directory / fields["location"], int(fields.get("offset", 0))
    return np.memmap(path, np.dtype("<f4"), "r", offset, tuple(tensor.dims))


def _external(name: str, values: NDArray[np.generic], stream: BinaryIO) -> onnx.TensorProto:
    stream.write(b"\0" * (-stream.tell() % DATA_ALIGNMENT))
    offset = stream.tell()
    stream.write(np.ascontiguousarray(values).data)
    element_type = helper.np_dtype_to_tensor_dtype(values.dtype)
    proto = onnx.TensorProto(name=name, data_type=element_type, dims=values.shape)
    proto.data_location = TensorProto.EXTERNAL
    for key, value in (("location", Path(stream.name).name), ("offset", offset), ("length", stream.tell() - offset)):
        proto.external_data.add(key=key, value=str(value))
    return proto
