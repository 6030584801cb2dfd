"""Attention whose sums follow the order of the KV slots, whichever slots they are.

ONNX Runtime's CPU sums a softmax row in vector lanes, so that the slot of a key decides which partial sum it joins. A
node of a draft tree has its ancestors in other slots than a chain would; its row then differs in the last bits. A
matrix product adds its terms one after the other, and a masked slot adds an exact zero. So a row's normaliser is
taken from a product with ones, like the weighted values beside it:

    softmax(s) @ v   becomes   (e @ v) / (e @ 1)   with   e = exp(s - max(s))

Rows then depend on the order of the visible slots alone. It costs four cheap nodes per layer.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cpspec_trt.errors import EngineError

_MASK = "attention_mask"
_PREFIX = "slot_order_"


def sum_in_slot_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """Rewrite every attention of a decoder that was exported with row-folded attention.

    Args:
        model: of ``graphs.code_predictor``; stays as it is. Large weights may lie outside.

    Returns:
        The rewritten graph.

    Raises:
        EngineError: a softmax does not weigh values, so the graph is not such a decoder.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    replaced: dict[str, list[onnx.NodeProto]] = {}  # by the output of the product that weighs the values
    dropped = set()
    width = _head_width(graph)
    for node in graph.node:
        if node.op_type != "Softmax":
            continue
        products = [reader for reader in readers[node.output[0]] if reader.op_type == "MatMul"]
        if len(products) != 1 or len(readers[node.output[0]]) != 1:
            raise EngineError(f"graph: the softmax {node.name!r} weighs no values; export the CodePredictor again")
        dropped.add(node.output[0])
        replaced[products[0].output[0]] = _weighted(node, products[0])
    nodes = _ones(graph, width)
    for node in graph.node:
        if node.output[0] not in dropped:
            nodes.extend(replaced.get(node.output[0], [node]))
    del graph.node[:]
    graph.node.extend(nodes)
    return changed


def _head_width(graph: onnx.GraphProto) -> int:
    value = next(each for each in graph.input if each.name == "past_value_0")
    return int(value.type.tensor_type.shape.dim[3].dim_value)


def _ones(graph: onnx.GraphProto, width: int) -> list[onnx.NodeProto]:
    """Ones of the shape of one head's values, [capacity, width]; the capacity is known at run time alone."""
    graph.initializer.extend(
        [
            numpy_helper.from_array(np.array([width], np.int64), f"{_PREFIX}width"),
            numpy_helper.from_array(np.array([-1], np.int64), f"{_PREFIX}axis"),
        ]
    )
    one = numpy_helper.from_array(np.ones(1, np.float32))
    return [
        helper.make_node("Shape", [_MASK], [f"{_PREFIX}capacity"], start=2, end=3),
        helper.make_node("Concat", [f"{_PREFIX}capacity", f"{_PREFIX}width"], [f"{_PREFIX}shape"], axis=0),
        helper.make_node("ConstantOfShape", [f"{_PREFIX}shape"], [f"{_PREFIX}ones"], value=one),
    ]


def _weighted(softmax: onnx.NodeProto, product: onnx.NodeProto) -> list[onnx.NodeProto]:
    scores, at = softmax.input[0], f"{_PREFIX}{product.output[0]}"
    return [
        helper.make_node("ReduceMax", [scores, f"{_PREFIX}axis"], [f"{at}_highest"], keepdims=1),
        helper.make_node("Sub", [scores, f"{at}_highest"], [f"{at}_shifted"]),
        helper.make_node("Exp", [f"{at}_shifted"], [f"{at}_weights"]),
        helper.make_node("MatMul", [f"{at}_weights", product.input[1]], [f"{at}_sum"]),
        helper.make_node("MatMul", [f"{at}_weights", f"{_PREFIX}ones"], [f"{at}_mass"]),
        helper.make_node("Div", [f"{at}_sum", f"{at}_mass"], [product.output[0]], name=product.name),
    ]
