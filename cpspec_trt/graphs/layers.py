"""Layers that every transformer here is made of."""

from __future__ import annotations

from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights


def linear(weights: CheckpointWeights, name: str, x: str, inputs: int, outputs: int, bias: bool = True) -> str:
    """x W^T + b over the last axis, with ``<name>.weight`` [outputs, inputs] and ``<name>.bias``."""
    y = weights.author.op("MatMul", x, weights.transposed(f"{name}.weight", inputs, outputs))
    return weights.author.op("Add", y, weights.plain(f"{name}.bias", (outputs,))) if bias else y


def rms_norm(weights: CheckpointWeights, name: str, x: str, width: int, epsilon: float) -> str:
    """x / sqrt(mean(x²) + epsilon) * weight over the last axis, which is ``width`` long."""
    scale = weights.plain(f"{name}.weight", (width,))
    return weights.author.op("RMSNormalization", x, scale, axis=-1, epsilon=epsilon)


def gated_mlp(weights: CheckpointWeights, name: str, x: str, hidden: int, inner: int) -> str:
    """down(SiLU(gate(x)) * up(x)), without biases."""
    gate = weights.author.op("Swish", linear(weights, f"{name}.gate_proj", x, hidden, inner, bias=False))
    up = linear(weights, f"{name}.up_proj", x, hidden, inner, bias=False)
    return linear(weights, f"{name}.down_proj", weights.author.op("Mul", gate, up), inner, hidden, bias=False)


def swap_heads(author: GraphAuthor, x: str) -> str:
    """[batch, new, heads, width] -> [batch, heads, new, width], and back."""
    return author.op("Transpose", x, perm=[0, 2, 1, 3])


def folded_mask(author: GraphAuthor, mask: str, heads: int, kv_heads: int) -> str:
    """[batch, new, keys] -> [batch, 1, heads / kv_heads * new, keys], as ``folded_attention`` needs it."""
    copies = author.constant([1, 1, heads // kv_heads, 1])
    return author.op("Tile", author.op("Unsqueeze", mask, author.constant([1])), copies)


def folded_attention(
    author: GraphAuthor, query: str, key: str, value: str, mask: str, heads: int, kv_heads: int, width: int
) -> str:
    """Grouped-query attention with the query heads that share a KV head folded into rows of one matrix.

    A pass over one position then takes the same matrix kernels as a pass over many, so that (with two
    or more query heads per KV head) every row comes out bit-identical on ONNX Runtime's CPU however the
    positions are cut into passes. The ``Attention`` operator and repeated heads both differ by 2e-6.

    Args:
        author: of the graph.
        query: [batch, heads, new, width].
        key: [batch, kv_heads, keys, width].
        value: as ``key``.
        mask: of ``folded_mask``, added to the scores.
        heads: query heads.
        kv_heads: divides ``heads``.
        width: of one head.

    Returns:
        [batch, new, heads * width].
    """
    rows = author.op("Reshape", query, author.constant([0, kv_heads, -1, width]))
    scores = author.op("MatMul", rows, author.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = author.op("Add", author.op("Mul", scores, author.constant(width**-0.5)), mask)
    y = author.op("MatMul", author.op("Softmax", scores, axis=-1), value)
    y = swap_heads(author, author.op("Reshape", y, author.constant([0, heads, -1, width])))
    return author.op("Reshape", y, author.constant([0, 0, heads * width]))
