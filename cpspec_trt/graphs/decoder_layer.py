"""A stack of decoder layers over a static KV cache, shared by the Talker and the CodePredictor.

Attention is *row-folded*: the query heads that share a KV head become rows of one matrix, so scores
are [batch, kv_heads, group * new, capacity]. A pass over one position then takes the same matrix
kernels as a pass over many, and every row comes out bit-identical on ONNX Runtime's CPU however the
positions are cut into passes (the ``Attention`` operator and repeated heads both differ by 2e-6).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.graphs.authoring import Dim, GraphAuthor
from cpspec_trt.graphs.causal_convolution import linear
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights

Mlp = Callable[[CheckpointWeights, DecoderDimensions, str, str], str]  # (weights, dimensions, tensor prefix, x) -> y


@dataclass(frozen=True, slots=True)
class DecoderInputs:
    """Names of the graph inputs that every decoder has; ``mask`` is folded: [batch, 1, group * new, capacity]."""

    inputs_embeds: str
    mask: str
    rope_cos: str
    rope_sin: str
    write_indices: str


def declare_decoder_inputs(author: GraphAuthor, dimensions: DecoderDimensions, width: int) -> DecoderInputs:
    """Declare the shared inputs (float32 unless noted).

    ``inputs_embeds`` [batch, new, width]; ``attention_mask`` [batch, new, capacity], added to the scores
    (0 or -1e30); ``rope_cos`` and ``rope_sin`` [batch, new, head_dim / 2] of the new positions;
    ``write_indices`` int64 [batch], the first KV slot each sequence writes.
    """
    half = dimensions.head_dim // 2
    embeds = author.input("inputs_embeds", ["batch", "new", width])
    mask = author.input("attention_mask", ["batch", "new", "capacity"])
    cos = author.input("rope_cos", ["batch", "new", half])
    sin = author.input("rope_sin", ["batch", "new", half])
    write = author.input("write_indices", ["batch"], np.int64)
    group = dimensions.num_attention_heads // dimensions.num_key_value_heads
    folded = author.op("Tile", author.op("Unsqueeze", mask, author.constant([1])), author.constant([1, 1, group, 1]))
    return DecoderInputs(embeds, folded, cos, sin, write)


def decoder_stack(
    weights: CheckpointWeights, dimensions: DecoderDimensions, prefix: str, inputs: DecoderInputs, x: str, mlp: Mlp
) -> str:
    """All layers, without the final norm.

    Declares ``past_key_i`` / ``past_value_i`` [batch, kv_heads, capacity, head_dim] and the outputs
    ``present_*`` of the same shape. Bind the same memory to both: TensorScatter then updates in place.

    Args:
        weights: where the layers' tensors come from.
        dimensions: of the stack.
        prefix: tensor name in front of ``.layers.N``.
        inputs: of ``declare_decoder_inputs``.
        x: hidden rows [batch, new, hidden_size].
        mlp: authors the feed-forward part of a layer.

    Returns:
        Hidden rows [batch, new, hidden_size].
    """
    author = weights.author
    for layer in range(dimensions.num_hidden_layers):
        at = f"{prefix}.layers.{layer}"
        with author.scope(f"layer_{layer}"):
            y = rms_norm(weights, f"{at}.input_layernorm", x, dimensions.hidden_size, dimensions.rms_norm_eps)
            x = author.op("Add", x, _attention(weights, dimensions, layer, f"{at}.self_attn", inputs, y))
            y = rms_norm(weights, f"{at}.post_attention_layernorm", x, dimensions.hidden_size, dimensions.rms_norm_eps)
            x = author.op("Add", x, mlp(weights, dimensions, f"{at}.mlp", y))
    return x


def rms_norm(weights: CheckpointWeights, name: str, x: str, width: int, epsilon: float) -> str:
    """x / sqrt(mean(x²) + epsilon) * weight over the last axis, which is ``width`` long."""
    scale = weights.plain(f"{name}.weight", (width,))
    return weights.author.op("RMSNormalization", x, scale, axis=-1, epsilon=epsilon)


def gated_mlp(weights: CheckpointWeights, dimensions: DecoderDimensions, prefix: str, x: str) -> str:
    """down(SiLU(gate(x)) * up(x)), the dense feed-forward part."""
    author, hidden, inner = weights.author, dimensions.hidden_size, dimensions.intermediate_size
    gate = author.op("Swish", linear(weights, f"{prefix}.gate_proj", x, hidden, inner, bias=False))
    up = linear(weights, f"{prefix}.up_proj", x, hidden, inner, bias=False)
    return linear(weights, f"{prefix}.down_proj", author.op("Mul", gate, up), inner, hidden, bias=False)


def _attention(
    weights: CheckpointWeights, dimensions: DecoderDimensions, layer: int, prefix: str, inputs: DecoderInputs, x: str
) -> str:
    """Grouped-query attention of the new rows over the cache, after writing their keys and values to it."""
    author, width = weights.author, dimensions.head_dim
    heads, kv_heads = dimensions.num_attention_heads, dimensions.num_key_value_heads

    def split(name: str, count: int) -> str:
        y = linear(weights, f"{prefix}.{name}_proj", x, dimensions.hidden_size, count * width, bias=False)
        return author.op("Reshape", y, author.constant([0, 0, count, width]))

    def rotated(name: str, count: int) -> str:
        y = rms_norm(weights, f"{prefix}.{name}_norm", split(name, count), width, dimensions.rms_norm_eps)
        return author.op("RotaryEmbedding", _swap_heads(author, y), inputs.rope_cos, inputs.rope_sin)

    query = rotated("q", heads)
    key = _updated(author, dimensions, f"key_{layer}", rotated("k", kv_heads), inputs)
    value = _updated(author, dimensions, f"value_{layer}", _swap_heads(author, split("v", kv_heads)), inputs)
    rows = author.op("Reshape", query, author.constant([0, kv_heads, -1, width]))
    scores = author.op("MatMul", rows, author.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = author.op("Add", author.op("Mul", scores, author.constant(width**-0.5)), inputs.mask)
    y = author.op("MatMul", author.op("Softmax", scores, axis=-1), value)
    y = _swap_heads(author, author.op("Reshape", y, author.constant([0, heads, -1, width])))
    y = author.op("Reshape", y, author.constant([0, 0, heads * width]))
    return linear(weights, f"{prefix}.o_proj", y, heads * width, dimensions.hidden_size, bias=False)


def _updated(author: GraphAuthor, dimensions: DecoderDimensions, name: str, rows: str, inputs: DecoderInputs) -> str:
    """The cache ``past_<name>`` with the new rows written to it, which leaves the graph as ``present_<name>``."""
    shape: list[Dim] = ["batch", dimensions.num_key_value_heads, "capacity", dimensions.head_dim]
    past = author.input(f"past_{name}", shape)
    present = author.op("TensorScatter", past, rows, inputs.write_indices, axis=2, mode="linear")
    author.output(f"present_{name}", present, shape)
    return present


def _swap_heads(author: GraphAuthor, x: str) -> str:
    """[batch, new, heads, width] -> [batch, heads, new, width], and back."""
    return author.op("Transpose", x, perm=[0, 2, 1, 3])
