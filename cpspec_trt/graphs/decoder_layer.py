"""Decoder layers over a static KV cache, shared by the Thinker, the Talker and the CodePredictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.graphs.authoring import Dim, GraphAuthor
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights
from cpspec_trt.graphs.layers import folded_attention, folded_mask, gated_mlp, linear, rms_norm, swap_heads

Mlp = Callable[[CheckpointWeights, DecoderDimensions, str, str], str]  # (weights, dimensions, tensor prefix, x) -> y


@dataclass(frozen=True, slots=True)
class DecoderInputs:
    """Names of the graph inputs that every decoder has; ``mask`` is folded as ``folded_attention`` needs it."""

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
    folded = folded_mask(author, mask, dimensions.num_attention_heads, dimensions.num_key_value_heads)
    return DecoderInputs(embeds, folded, cos, sin, write)


def decoder_stack(
    weights: CheckpointWeights, dimensions: DecoderDimensions, prefix: str, inputs: DecoderInputs, x: str, mlp: Mlp
) -> str:
    """All layers, without the final norm; ``mlp`` authors the feed-forward part of each. See ``decoder_layer``."""
    weights.tensors.check_length(f"{prefix}.layers", dimensions.num_hidden_layers)
    for layer in range(dimensions.num_hidden_layers):
        x = decoder_layer(weights, dimensions, prefix, layer, inputs, x, mlp)
    return x


def decoder_layer(
    weights: CheckpointWeights,
    dimensions: DecoderDimensions,
    prefix: str,
    layer: int,
    inputs: DecoderInputs,
    x: str,
    mlp: Mlp,
) -> str:
    """One layer.

    Declares ``past_key_i`` / ``past_value_i`` [batch, kv_heads, capacity, head_dim] and the outputs
    ``present_*`` of the same shape. Bind the same memory to both: TensorScatter then updates in place.

    Args:
        weights: where the layer's tensors come from.
        dimensions: of the stack.
        prefix: tensor name in front of ``.layers.N``.
        layer: its number.
        inputs: of ``declare_decoder_inputs``.
        x: hidden rows [batch, new, hidden_size].
        mlp: authors the feed-forward part.

    Returns:
        Hidden rows [batch, new, hidden_size].
    """
    author, hidden, epsilon = weights.author, dimensions.hidden_size, dimensions.rms_norm_eps
    at = f"{prefix}.layers.{layer}"
    with author.scope(f"layer_{layer}"):
        y = rms_norm(weights, f"{at}.input_layernorm", x, hidden, epsilon)
        x = author.op("Add", x, _attention(weights, dimensions, layer, f"{at}.self_attn", inputs, y))
        y = rms_norm(weights, f"{at}.post_attention_layernorm", x, hidden, epsilon)
        return author.op("Add", x, mlp(weights, dimensions, f"{at}.mlp", y))


def dense_mlp(weights: CheckpointWeights, dimensions: DecoderDimensions, prefix: str, x: str) -> str:
    """The feed-forward part of a dense layer."""
    return gated_mlp(weights, prefix, x, dimensions.hidden_size, dimensions.intermediate_size)


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
        return author.op("RotaryEmbedding", swap_heads(author, y), inputs.rope_cos, inputs.rope_sin)

    def cached(name: str, rows: str) -> str:
        shape: list[Dim] = ["batch", kv_heads, "capacity", width]
        past = author.input(f"past_{name}_{layer}", shape)
        present = author.op("TensorScatter", past, rows, inputs.write_indices, axis=2, mode="linear")
        author.output(f"present_{name}_{layer}", present, shape)
        return present

    query = rotated("q", heads)
    key = cached("key", rotated("k", kv_heads))
    value = cached("value", swap_heads(author, split("v", kv_heads)))
    y = folded_attention(author, query, key, value, inputs.mask, heads, kv_heads, width)
    return linear(weights, f"{prefix}.o_proj", y, heads * width, dimensions.hidden_size, bias=False)
