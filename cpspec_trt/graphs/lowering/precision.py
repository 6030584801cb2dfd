"""Which values of a graph become fp16 or bf16, and the casts between them and the fp32 islands.

Three kinds of nodes. A node of an island computes in fp32. Products, convolutions and caches compute in the
low precision, for there the time and the memory go. Everything else follows its inputs: fp32 if one of them is
fp32, otherwise low. A weight takes the type of the nodes that read it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import TensorProto, shape_inference

from cpspec_trt.errors import UnsupportedError
from cpspec_trt.graphs.lowering.islands import ISLANDS
from cpspec_trt.graphs.lowering.surgery import Node, replace

Precision = Literal["fp32", "fp16", "bf16"]
#: The element type of each precision.
ELEMENT_TYPES: Mapping[Precision, int] = MappingProxyType(
    {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
)
#: Inputs and outputs that are fp32 whatever the precision and the component; every other one has the low precision, but
#: for states of an island and what a component asks for.
WIDE_INPUTS = frozenset({"attention_mask", "rope_cos", "rope_sin", "state_frames"})
WIDE_OUTPUTS = frozenset({"logits", "accept_hidden", "waveform", "next_state_frames"})

_FLOAT: int = TensorProto.FLOAT
_LOW = frozenset({"MatMul", "Conv", "TensorScatter", "Attention", "Concat"})
_FOLLOWING = frozenset(
    {
        "Add", "Mul", "Div", "Sum", "Swish", "Gelu", "Sin", "Sigmoid", "Clip", "Softmax", "TopK",
        "RMSNormalization", "LayerNormalization", "RotaryEmbedding", "ReduceSum", "ReduceMean",
        "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Tile", "Split", "Slice", "Identity", "Gather", "GatherND",
    }
)  # fmt: skip
_TAKES_ANY = frozenset({"Shape", "GreaterOrEqual"})  # reads floats and gives none: of any type


@dataclass(frozen=True, slots=True)
class Typed:
    """A graph with its casts, and the element type that each of its fp32 weights is still to be given."""

    model: onnx.ModelProto
    weights: Mapping[str, int]


def set_precision(
    model: onnx.ModelProto, precision: Precision, islands: Collection[str], wide_inputs: Collection[str] = ()
) -> Typed:
    """Choose a type for every fp32 value and insert the casts. No weight is read.

    Args:
        model: in fp32; its weights may lie outside. Not changed.
        precision: fp32 leaves the graph as it is.
        islands: names from ``ISLANDS``.
        wide_inputs: names of inputs that stay fp32, beside those that always do.

    Raises:
        UnsupportedError: an operator over floats that this pass does not know.
    """
    if precision == "fp32":
        return Typed(model, {})
    casting = _Casting(model, precision, islands, WIDE_INPUTS.union(wide_inputs))
    casting.type_nodes()
    casting.type_weights()
    casting.insert()
    typed = gs.export_onnx(casting.graph)
    typed.ir_version = model.ir_version
    return Typed(typed, casting.weights)


class _Casting:
    """One run over one graph: the type of every node, then that of every weight, then the casts."""

    def __init__(
        self, model: onnx.ModelProto, precision: Precision, islands: Collection[str], wide_inputs: Collection[str]
    ) -> None:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        self.graph: Any = gs.import_onnx(copy)
        self.weights: dict[str, int] = {}
        self._low, self._name = ELEMENT_TYPES[precision], precision
        self._elements = _element_types(model)
        self._wide_inputs = wide_inputs
        self._wide = {id(node) for name in islands for node in ISLANDS[name](self.graph)}
        self._node_types: dict[int, int] = {}  # of the nodes that compute with floats, by id
        self._types: dict[str, int] = {}  # of every float value
        self._casts: dict[tuple[str, int], Any] = {}

    def type_nodes(self) -> None:
        for tensor in self.graph.inputs:
            if self._is_float(tensor):
                self._types[tensor.name] = tensor.dtype = self._type_of_input(tensor)
        for node in self.graph.nodes:
            if node.op == "Cast":
                self._type_cast(node)
            elif node.op not in _TAKES_ANY and any(map(self._is_float, (*node.inputs, *node.outputs))):
                self._node_types[id(node)] = found = self._type_of(node)
                self._types |= {tensor.name: found for tensor in node.outputs if self._is_float(tensor)}

    def type_weights(self) -> None:
        for tensor in self.graph.tensors().values():
            if isinstance(tensor, gs.Constant) and self._is_float(tensor):
                readers = {self._node_types.get(id(node), _FLOAT) for node in tensor.outputs}
                self._types[tensor.name] = self._low if readers == {self._low} else _FLOAT
                self.weights[tensor.name] = self._types[tensor.name]

    def insert(self) -> None:
        nodes: list[Node] = []
        for node in self.graph.nodes:
            wanted = self._node_types.get(id(node))
            for place, tensor in enumerate(node.inputs):
                if wanted is not None and self._is_float(tensor) and self._types[tensor.name] != wanted:
                    node.inputs[place] = self._cast(tensor, wanted, nodes)
            nodes.append(node)
        for tensor in self.graph.outputs:
            if self._is_float(tensor):
                self._type_output(tensor, nodes)
        self.graph.nodes = nodes

    def _type_of_input(self, tensor: Any) -> int:
        wide = tensor.name in self._wide_inputs or any(
            node.op == "Concat" and id(node) in self._wide for node in tensor.outputs
        )
        return _FLOAT if wide else self._low

    def _type_cast(self, node: Node) -> None:
        """What comes from truth values is 0 or 1 and may be low; what comes from counts stays fp32."""
        if node.attrs["to"] == _FLOAT:
            truth = self._elements.get(node.inputs[0].name) == TensorProto.BOOL
            node.attrs["to"] = self._types[node.outputs[0].name] = self._low if truth else _FLOAT

    def _type_of(self, node: Node) -> int:
        if id(node) in self._wide:
            return _FLOAT
        if node.op in _LOW:
            return self._low
        if node.op not in _FOLLOWING:
            raise UnsupportedError(f"operator {node.op} (node {node.name!r}) has no rule for precision {self._name}")
        types = {self._types[t.name] for t in node.inputs if self._is_float(t) and not isinstance(t, gs.Constant)}
        return _FLOAT if _FLOAT in types else self._low

    def _is_float(self, tensor: Any) -> bool:
        if isinstance(tensor, gs.Constant):
            return bool(tensor.dtype == np.float32)
        return bool(self._elements.get(tensor.name) == _FLOAT)

    def _cast(self, tensor: Any, wanted: int, nodes: list[Node]) -> Any:
        key = (tensor.name, wanted)
        if key not in self._casts:
            name = f"{tensor.name}/{'fp32' if wanted == _FLOAT else self._name}"
            self._casts[key] = gs.Variable(name)
            nodes.append(gs.Node("Cast", name, {"to": wanted}, [tensor], [self._casts[key]]))
        return self._casts[key]

    def _type_output(self, tensor: Any, nodes: list[Node]) -> None:
        """Where the value has another type than the output, it gets another name and is cast to the output's."""
        found = self._types[tensor.name]
        tensor.dtype = found
        if tensor.name.startswith("next_state_"):
            return
        wanted = _FLOAT if tensor.name in WIDE_OUTPUTS else self._low
        if found == wanted:
            return
        inner, source = gs.Variable(f"{tensor.name}/inner"), tensor.inputs[0]
        replace(tensor, inner)
        source.outputs = [inner if value is tensor else value for value in source.outputs]
        tensor.dtype = wanted
        nodes.append(gs.Node("Cast", f"{tensor.name}/Cast", {"to": wanted}, [inner], [tensor]))


def _element_types(model: onnx.ModelProto) -> dict[str, int]:
    graph = shape_inference.infer_shapes(model).graph
    return {v.name: v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.input, *graph.output)}
