"""Writes an ONNX graph node by node, and its weights one at a time.

Everything in ``graphs/`` describes its model through ``GraphAuthor``: values are plain names, a
weight is a promise that is only loaded when the file is written, and ``save`` holds one weight at a time,
once, whatever the order of its elements.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from numpy.typing import DTypeLike, NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 24
DATA_ALIGNMENT = 4096  # a page, so that a reader can map any weight directly
_BLOCK_ELEMENTS = 1 << 22  # 16 MiB of float32

Dim = int | str


@dataclass(frozen=True, slots=True)
class Weight:
    """A float32 tensor of the graph that ``load`` produces when the file is written.

    ``load`` must return an array of exactly ``shape``; its errors (a missing or damaged tensor)
    pass through ``GraphAuthor.save`` unchanged.
    """

    name: str
    shape: tuple[int, ...]
    load: Callable[[], NDArray[np.float32]]


class GraphAuthor:
    """Collects inputs, nodes, constants, weights and outputs of one graph, in execution order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[tuple[str, onnx.ValueInfoProto]] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], onnx.TensorProto] = {}
        self._weights: dict[str, Weight] = {}
        self._names: set[str] = set()
        self._scopes: list[str] = []
        self._counter = 0

    @property
    def inputs(self) -> tuple[onnx.ValueInfoProto, ...]:
        """The graph inputs declared so far."""
        return tuple(self._inputs)

    def input(self, name: str, dims: Sequence[Dim], dtype: DTypeLike = np.float32) -> str:
        """Declare a graph input; a string dimension is symbolic ('batch', 'new', 'capacity', …). Returns ``name``."""
        self._claim(name)
        self._inputs.append(helper.make_tensor_value_info(name, _onnx_type(dtype), list(dims)))
        return name

    def output(self, name: str, value: str, dims: Sequence[Dim], dtype: DTypeLike = np.float32) -> None:
        """Make ``value`` the graph output called ``name``."""
        self._claim(name)
        self._outputs.append((value, helper.make_tensor_value_info(name, _onnx_type(dtype), list(dims))))

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output and return that output's name ('' stands for an absent optional input)."""
        return self.op_many(op_type, *inputs, outputs=1, **attributes)[0]

    def op_many(self, op_type: str, *inputs: str, outputs: int, **attributes: Any) -> tuple[str, ...]:
        """Append a node with ``outputs`` outputs (Split, TopK, …) and return their names."""
        name = self._fresh(op_type)
        results = (name,) if outputs == 1 else tuple(f"{name}.{i}" for i in range(outputs))
        self._nodes.append(helper.make_node(op_type, list(inputs), list(results), name=name, **attributes))
        return results

    def constant(self, value: Any, dtype: DTypeLike | None = None) -> str:
        """A small constant stored in the graph file; equal constants are stored once.

        Python integers become int64 and floats float32 unless ``dtype`` says otherwise.
        """
        array = np.asarray(value, dtype)
        if dtype is None and not isinstance(value, np.ndarray):
            array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(array, name=self._fresh("constant"))
        return str(self._constants[key].name)

    def weight(self, weight: Weight) -> str:
        """Register a weight for external data and return its name; the same weight may be used many times.

        Raises:
            ValueError: another weight of this name is already there.
        """
        known = self._weights.get(weight.name)
        if known is None:
            self._claim(weight.name)
            self._weights[weight.name] = weight
        elif known != weight:
            raise ValueError(f"two different weights are called {weight.name!r}")
        return weight.name

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Prefix the names of nodes and values made inside with ``name/``."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def save(self, path: Path) -> None:
        """Write ``path`` and its external data ``<path>.data``, check both, then move them into place.

        Peak memory is what ``load`` of the largest weight takes, plus a block and the graph itself.

        Raises:
            ValueError: a weight loaded with another shape or dtype than declared.
            onnx.checker.ValidationError: the graph breaks a rule of ONNX.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        data_name = f"{path.name}.data"
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
            graph, data = Path(scratch) / path.name, Path(scratch) / data_name
            with data.open("wb") as stream:
                initializers = [_write_external(weight, stream, data_name) for weight in self._weights.values()]
                stream.flush()
                os.fsync(stream.fileno())
            with graph.open("wb") as stream:
                stream.write(self._model(initializers).SerializeToString(deterministic=True))
                stream.flush()
                os.fsync(stream.fileno())
            onnx.checker.check_model(str(graph), full_check=True)
            os.replace(data, path.parent / data_name)
            os.replace(graph, path)

    def _model(self, initializers: list[onnx.TensorProto]) -> onnx.ModelProto:
        nodes, renames, produced = list(self._nodes), {}, {name for node in self._nodes for name in node.output}
        for value, info in self._outputs:
            if value in produced and value not in renames:
                renames[value] = info.name
            else:  # an input, a weight, or a value that already is an output under another name
                source = renames.get(value, value)
                nodes.append(helper.make_node("Identity", [source], [info.name], name=f"{info.name}/Identity"))
        graph = helper.make_graph(
            [_renamed(node, renames) for node in nodes],
            self._name,
            self._inputs,
            [info for _, info in self._outputs],
            [*self._constants.values(), *initializers],
        )
        opset = [helper.make_opsetid("", OPSET)]
        version = helper.find_min_ir_version_for(opset)
        return helper.make_model(graph, opset_imports=opset, ir_version=version, producer_name="cpspec_trt")

    def _fresh(self, stem: str) -> str:
        self._counter += 1
        return "/".join([*self._scopes, f"{stem}_{self._counter}"])

    def _claim(self, name: str) -> None:
        if name in self._names:
            raise ValueError(f"the name {name!r} is already taken in graph {self._name!r}")
        self._names.add(name)


def _renamed(node: onnx.NodeProto, renames: dict[str, str]) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [renames.get(name, name) for name in node.input]
    copy.output[:] = [renames.get(name, name) for name in node.output]
    return copy


def _write_external(weight: Weight, stream: BinaryIO, location: str) -> onnx.TensorProto:
    array = weight.load()
    if array.shape != weight.shape or array.dtype != np.float32:
        found = f"{array.dtype} {list(array.shape)}"
        raise ValueError(f"weight {weight.name!r} was declared float32 {list(weight.shape)} and loaded as {found}")
    stream.write(b"\0" * (-stream.tell() % DATA_ALIGNMENT))
    offset = stream.tell()
    for block in _row_blocks(array):
        stream.write(np.ascontiguousarray(block, "<f4").data)
    proto = onnx.TensorProto(name=weight.name, data_type=TensorProto.FLOAT, dims=weight.shape)
    proto.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", stream.tell() - offset)):
        proto.external_data.add(key=key, value=str(value))
    return proto


def _row_blocks(array: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """``array`` in parts along its first axis: a transposed matrix must be copied, but never as a whole."""
    if array.flags.c_contiguous:
        yield array
        return
    rows = max(_BLOCK_ELEMENTS * len(array) // array.size, 1)
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


def _onnx_type(dtype: DTypeLike) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
