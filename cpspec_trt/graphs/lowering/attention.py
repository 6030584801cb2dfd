"""Attention over a static KV cache whose cost follows the tokens so far, for TensorRT.

There a cache has a fixed number of slots. Both forms here cut keys and values to the width of ``attention_mask``,
whose last dimension becomes dynamic (``keys``, at most the cache's slots): the caller gives a mask as wide as the
slots in use, rounded up as it likes. The folded form keeps the exported products; the fused one is the operator
``Attention`` with one mask of truth values for all layers, which TensorRT has kernels for in fp16 and bf16.

Lengths (``nonpad_kv_seqlen``) and ``is_causal`` would need no mask, but the parser of TensorRT-RTX 1.7.1 drops the
one without a word and aligns the other at the upper left, where a step sees only the first slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from cpspec_trt.graphs.lowering.surgery import Addition, Node, Value, edited, producer, replace

MASK = "attention_mask"
KEYS = "keys"
_VISIBLE = -1.0  # a score's mask is 0 where a key is seen and -1e30 elsewhere


@dataclass(frozen=True, slots=True)
class FoldedAttention:
    """What ``folded_attention`` authors: the values around it, and the nodes that read keys and values."""

    query: Value  # [batch, heads, new, width]
    scale: float
    transpose: Node  # reads the keys [batch, kv_heads, slots, width]
    product: Node  # reads the values, shaped as the keys
    result: Value  # [batch, heads, new, width]


def folded_attentions(graph: Any) -> Iterator[FoldedAttention]:
    """Every attention of a graph as it was exported."""
    for softmax in graph.nodes:
        add = producer(softmax.inputs[0]) if softmax.op == "Softmax" else None
        if add is not None and add.op == "Add":
            scaled, product = add.i(), softmax.o()
            scores = scaled.i()
            yield FoldedAttention(
                query=scores.i().inputs[0],
                scale=float(scaled.inputs[1].values),
                transpose=scores.i(1),
                product=product,
                result=product.o().outputs[0],
            )


def slice_keys(model: onnx.ModelProto) -> onnx.ModelProto:
    """The folded form over as many keys as the mask is wide."""
    with edited(model) as (graph, result):
        add = Addition(graph, "attention")
        width = _free_width(add, graph)
        for found in list(folded_attentions(graph)):
            found.transpose.inputs[0] = _cut(add, found.transpose.inputs[0], width)
            found.product.inputs[1] = _cut(add, found.product.inputs[1], width)
    return result


def fuse_attention(model: onnx.ModelProto) -> onnx.ModelProto:
    """The operator ``Attention`` over as many keys as the mask is wide.

    The query is scaled before the operator: TensorRT's parser would otherwise scale every key of the cache.
    """
    with edited(model) as (graph, result):
        add = Addition(graph, "attention")
        width, mask = _free_width(add, graph), _mask_input(graph)
        seen = add.op("GreaterOrEqual", mask, add.constant(_VISIBLE, np.float32))
        seen = add.op("Unsqueeze", seen, add.constant([1]))  # one for all heads
        for found in list(folded_attentions(graph)):
            query = add.op("Mul", found.query, add.constant(found.scale, np.float32))
            key = _cut(add, found.transpose.inputs[0], width)
            value = _cut(add, found.product.inputs[1], width)
            replace(found.result, add.op("Attention", query, key, value, seen, scale=1.0))
    return result


def _mask_input(graph: Any) -> Value:
    return next(value for value in graph.inputs if value.name == MASK)


def _free_width(add: Addition, graph: Any) -> Value:
    """Make the mask's last dimension dynamic; returns it, int64 [1]."""
    mask = _mask_input(graph)
    mask.shape = [*mask.shape[:2], KEYS]
    return add.op("Shape", mask, start=2, end=3)


def _cut(add: Addition, cache: Value, width: Value) -> Value:
    return add.op("Slice", cache, add.constant([0]), width, add.constant([2]))
