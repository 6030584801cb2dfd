"""Experts for TensorRT: tiles of rows that share an expert, each multiplied with that expert's matrices.

The exported form gives every expert a matrix product of as many rows as chose it. TensorRT needs sizes that follow
from shapes. So the assignments (row, chosen expert) are laid out in tiles of ``TILE`` slots, each tile of one
expert, and a tile gathers the matrices of its expert from all of them. R rows with k experts each, of E, need at most
min(R k, floor(R k / TILE) + E) tiles. A step of one row gathers k experts and no more; a long prompt gathers each
expert about once and once more for every ``TILE`` rows that it has. Slots without a row compute on row 0, and nothing
reads their results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import TensorProto
from onnx_graphsurgeon.ir.tensor import LazyValues

from cpspec_trt.graphs.lowering.surgery import Addition, Node, Value, edited, find_reader, producer, reader, replace

TILE = 64


@dataclass(frozen=True, slots=True)
class Stacked:
    """A graph some of whose weights are still to be made: name -> the weights that stand in it one upon the other."""

    model: onnx.ModelProto
    parts: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Experts:
    """The experts of one layer in the exported form."""

    rows: Value  # [rows, hidden]
    chosen: Value  # int64 [rows, k]
    count: int  # k
    gate_up: tuple[Value, ...]  # of each expert [hidden, 2 * inner]
    down: tuple[Value, ...]  # [inner, hidden]
    result: Value  # [rows * k, hidden], in the order of the assignments


def tile_experts(model: onnx.ModelProto) -> Stacked:
    """Replace the experts of every layer by tiles. Router, shares and shared experts stay."""
    parts: dict[str, tuple[str, ...]] = {}
    with edited(model) as (graph, result):
        for number, experts in enumerate(list(_layers(graph))):
            add = Addition(graph, f"experts_{number}")
            stacks = []
            for name, matrices in (("gate_up", experts.gate_up), ("down", experts.down)):
                stack = _stack(f"experts_{number}/{name}", matrices)
                parts[stack.name] = tuple(matrix.name for matrix in matrices)
                stacks.append(stack)
            tiled = _tiles(add, experts, *stacks)
            replace(experts.result, tiled)
    return Stacked(result, parts)


def _layers(graph: Any) -> Iterator[_Experts]:
    for top in graph.nodes:
        router = producer(top.inputs[0]) if top.op == "TopK" else None
        if router is not None and router.op == "Softmax":
            yield _match(top, router)


def _match(top: Node, router: Node) -> _Experts:
    rows = router.i().inputs[0]
    split = reader(rows, "Gather").o()  # of the sorted rows, by expert
    gate_up = [group.outputs[0] for group in split.outputs]
    swish = reader(reader(_joined(gate_up[0]), "Split").outputs[0], "Swish")
    down = [group.outputs[0] for group in swish.o().o().outputs]
    return _Experts(
        rows=rows,
        chosen=top.outputs[1],
        count=int(top.inputs[1].values[0]),
        gate_up=tuple(product.inputs[1] for product in gate_up),
        down=tuple(product.inputs[1] for product in down),
        result=reader(_joined(down[0]), "Gather").outputs[0],
    )


def _joined(product: Node) -> Value:
    """What the experts gave, one after the other: of a single expert its own product."""
    value = product.outputs[0]
    concat = find_reader(value, "Concat")
    return value if concat is None else concat.outputs[0]


def _stack(name: str, matrices: tuple[Value, ...]) -> Value:
    """A weight [experts, *shape of one] that lies outside and has no bytes yet."""
    proto = onnx.TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[len(matrices), *matrices[0].shape])
    proto.data_location = TensorProto.EXTERNAL
    return gs.Constant(name, LazyValues(proto))


def _tiles(add: Addition, experts: _Experts, gate_up: Value, down: Value) -> Value:
    """The experts' outputs, [rows * k, hidden]."""
    total, count = len(experts.gate_up), experts.count
    expert = add.op("Reshape", experts.chosen, add.constant([-1]))  # of every assignment
    assignments = add.op("Shape", expert)  # [1]
    at_most = add.op("Add", add.op("Div", assignments, add.constant([TILE])), add.constant([total]))
    tiles = add.op("Min", assignments, at_most)
    slot, tile_expert = _places(add, expert, total, tiles)
    slots = add.op("Mul", tiles, add.constant([TILE]))
    number = add.op("Range", add.constant(0), add.op("Squeeze", assignments), add.constant(1))
    row = add.op("Div", number, add.constant([count]))
    source = add.op("ScatterElements", add.op("Expand", add.constant([0]), slots), slot, row, axis=0)
    x = add.op("Gather", experts.rows, source, axis=0)
    hidden = int(gate_up.shape[1])
    x = add.op("Reshape", x, add.constant([-1, TILE, hidden]))
    x = add.op("MatMul", x, add.op("Gather", gate_up, tile_expert, axis=0))
    inner = int(down.shape[1])
    gate = add.op("Slice", x, add.constant([0]), add.constant([inner]), add.constant([2]))
    up = add.op("Slice", x, add.constant([inner]), add.constant([2 * inner]), add.constant([2]))
    x = add.op("Mul", add.op("Swish", gate), up)
    x = add.op("MatMul", x, add.op("Gather", down, tile_expert, axis=0))
    return add.op("Gather", add.op("Reshape", x, add.constant([-1, hidden])), slot, axis=0)


def _places(add: Addition, expert: Value, total: int, tiles: Value) -> tuple[Value, Value]:
    """The slot of every assignment, int64 [assignments], and the expert of every tile, int64 [tiles]."""
    one_hot = add.op("Equal", add.op("Unsqueeze", expert, add.constant([1])), add.constant(np.arange(total)[None]))
    one_hot = add.op("Cast", one_hot, to=TensorProto.INT64)  # [assignments, experts]
    rank = add.op("CumSum", one_hot, add.constant(0), exclusive=1)  # how many before it have this expert
    rank = add.op("ReduceSum", add.op("Mul", rank, one_hot), add.constant([1]), keepdims=0)
    sizes = add.op("ReduceSum", one_hot, add.constant([0]), keepdims=0)
    needed = add.op("Div", add.op("Add", sizes, add.constant([TILE - 1])), add.constant([TILE]))
    ends = add.op("CumSum", needed, add.constant(0))  # [experts], in tiles
    starts = add.op("Sub", ends, needed)
    slot = add.op("Add", add.op("Mul", add.op("Gather", starts, expert, axis=0), add.constant([TILE])), rank)
    number = add.op("Range", add.constant(0), add.op("Squeeze", tiles), add.constant(1))
    number = add.op("Unsqueeze", number, add.constant([1]))
    behind = add.op("GreaterOrEqual", number, add.op("Unsqueeze", ends, add.constant([0])))
    tile_expert = add.op("ReduceSum", add.op("Cast", behind, to=TensorProto.INT64), add.constant([1]), keepdims=0)
    return slot, add.op("Min", tile_expert, add.constant([total - 1]))
