"""A lowered graph with true rounding: every value that is fp16 or bf16 is rounded to that type, nowhere else.

Runtimes for CPUs compute fp16 in fp32 over several nodes, so what would overflow on a GPU does not overflow there.
Here the graph is written out in fp32 instead: each node computes in fp32, and what it gives is cast to the low
type and back. The ONNX reference evaluator runs the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

LOW = {TensorProto.FLOAT16: np.dtype(np.float16), TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16)}

Arrays = dict[str, np.ndarray]


def element_types(model: onnx.ModelProto) -> dict[str, int]:
    """Of every value that is no weight."""
    graph = shape_inference.infer_shapes(model).graph
    return {v.name: v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.input, *graph.output)}


def written_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph in fp32 with a rounding behind every value of a low type; inputs and outputs are fp32 too."""
    types, twin = element_types(model), onnx.ModelProto()
    twin.CopyFrom(model)
    for tensor in twin.graph.initializer:
        if tensor.data_type in LOW:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    nodes = [node for value in model.graph.input for node in _rounded(value.name, types)]
    for node in model.graph.node:
        nodes += _computed_in_fp32(node, types)
    for value in (*twin.graph.input, *twin.graph.output):
        if value.type.tensor_type.elem_type in LOW:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for value in twin.graph.input:
        if types[value.name] in LOW:
            value.name = f"{value.name}/exact"
    del twin.graph.node[:], twin.graph.value_info[:]
    twin.graph.node.extend(nodes)
    return twin


def evaluate(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> Arrays:
    """Run a lowered graph with true rounding.

    Args:
        model: holds its weights.
        feeds: every input by name; those of a low type may be float32 and are rounded.

    Returns:
        Every output, float32 where it is a float.
    """
    types, twin = element_types(model), written_out(model)
    exact = {f"{name}/exact" if types[name] in LOW else name: array for name, array in feeds.items()}
    exact = {name: array.astype(np.float32) if array.dtype in LOW.values() else array for name, array in exact.items()}
    with np.errstate(over="ignore", invalid="ignore"):
        outputs = ReferenceEvaluator(twin).run(None, exact)
    return dict(zip([value.name for value in twin.graph.output], outputs, strict=True))


def evaluate_in_fp16(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> Arrays:
    """Run a graph in fp16 whose every step inside an operator rounds too: a norm's squares, the terms of a sum."""
    types = element_types(model)
    typed = {name: array.astype(LOW.get(types[name], array.dtype)) for name, array in feeds.items()}
    with np.errstate(all="ignore"):
        outputs = ReferenceEvaluator(model).run(None, typed)
    return dict(zip([value.name for value in model.graph.output], outputs, strict=True))


def _rounded(name: str, types: Mapping[str, int]) -> Iterator[onnx.NodeProto]:
    """From ``<name>/exact`` to ``name``, if that has a low type."""
    if types[name] in LOW:
        yield helper.make_node("Cast", [f"{name}/exact"], [f"{name}/low"], to=types[name])
        yield helper.make_node("Cast", [f"{name}/low"], [name], to=TensorProto.FLOAT)


def _computed_in_fp32(node: onnx.NodeProto, types: Mapping[str, int]) -> Iterator[onnx.NodeProto]:
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    if node.op_type == "Cast" and (node.attribute[0].i in LOW or types.get(node.input[0]) in LOW):
        wide = helper.make_node("Cast", node.input, node.output, to=TensorProto.FLOAT)
    wide.output[:] = [f"{name}/exact" if types.get(name) in LOW else name for name in node.output]
    yield wide
    for name in node.output:
        yield from _rounded(name, types) if name else ()
