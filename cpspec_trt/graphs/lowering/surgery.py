"""Small helpers over onnx_graphsurgeon: new nodes in order, and the neighbours of a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from numpy.typing import ArrayLike, DTypeLike

from cpspec_trt.errors import UnsupportedError

Node = Any  # onnx_graphsurgeon has no types
Value = Any


def producer(value: Value) -> Node | None:
    """The node that computes a value; None for a graph input and for a constant."""
    return value.inputs[0] if not isinstance(value, gs.Constant) and value.inputs else None


def find_reader(value: Value, op_type: str) -> Node | None:
    """The first node of that type which reads a value, if there is one."""
    return next((node for node in value.outputs if node.op == op_type), None)


def reader(value: Value, op_type: str) -> Node:
    """The first node of that type which reads a value.

    Raises:
        UnsupportedError: there is none, so the graph is not one that ``cpspec-export`` of this release writes.
    """
    found = find_reader(value, op_type)
    if found is None:
        raise UnsupportedError(f"no {op_type} reads the value {value.name!r}; export again with cpspec-export")
    return found


class Addition:
    """Nodes that a pass adds to a graph, under names of their own."""

    def __init__(self, graph: Any, scope: str) -> None:
        self._graph, self._scope, self._count = graph, scope, 0

    def op(self, op_type: str, *inputs: Value, **attributes: Any) -> Value:
        """Append a node with one output; None stands for an absent input. Returns the output."""
        name = self._name(op_type)
        output = gs.Variable(name)
        found = [gs.Variable.empty() if value is None else value for value in inputs]
        self._graph.nodes.append(gs.Node(op_type, name, attributes, found, [output]))
        return output

    def constant(self, value: ArrayLike, dtype: DTypeLike = np.int64) -> Value:
        """A constant inside the graph."""
        return gs.Constant(self._name("constant"), np.asarray(value, dtype))

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{self._scope}/{stem}_{self._count}"


def replace(old: Value, new: Value) -> None:
    """Let every reader of ``old`` read ``new``."""
    for node in list(old.outputs):
        node.inputs = [new if value is old else value for value in node.inputs]


@contextmanager
def edited(model: onnx.ModelProto) -> Iterator[tuple[Any, onnx.ModelProto]]:
    """A graph to change, and the model that holds it afterwards: in order, without what nothing reads any more.

    Inputs and outputs stay, and weights that lie outside stay there.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph, result = gs.import_onnx(copy), onnx.ModelProto()
    yield graph, result
    graph.cleanup(remove_unused_graph_inputs=False).toposort()
    result.CopyFrom(gs.export_onnx(graph))
    result.ir_version = model.ir_version
