"""What the decoders of Qwen3-TTS and Qwen3-Omni share: codes to rows, the transformer, rows to samples.

Both turn the rows of a sliding-window transformer into samples by causal convolutions that widen time.
Whatever a frame needs from the past enters and leaves the graph as state (keys and values of the
attention window, left context of every convolution), so a sequence cut into chunks of any lengths gives
the samples of the whole, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpspec_trt.files.engine_config import AnyCode2WavConfig
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.causal_convolution import (
    RESIDUAL_DILATIONS,
    carry,
    causal_convolution,
    causal_transposed_convolution,
    conv_next,
    residual_unit,
    snake,
)
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights
from cpspec_trt.graphs.layers import folded_attention, folded_mask, gated_mlp, linear, rms_norm, swap_heads

_VOCODER_KERNEL = 7


@dataclass(frozen=True, slots=True)
class DecoderInputs:
    """Names of the graph inputs besides the state."""

    codes: str  # int64 [batch, groups, frames]
    mask: str  # [batch, frames, window - 1 + frames], additive
    rope: tuple[str, str]  # cos and sin, [batch, frames, head_dim / 2]


def decoder_inputs(author: GraphAuthor, config: AnyCode2WavConfig) -> DecoderInputs:
    """Declare codes, attention_mask, rope_cos and rope_sin."""
    half = config.head_dim // 2
    return DecoderInputs(
        codes=author.input("codes", ["batch", config.num_quantizers, "frames"], np.int64),
        mask=author.input("attention_mask", ["batch", "frames", "keys"]),
        rope=(
            author.input("rope_cos", ["batch", "frames", half]),
            author.input("rope_sin", ["batch", "frames", half]),
        ),
    )


def code_rows(author: GraphAuthor, config: AnyCode2WavConfig, codes: str, table: str) -> str:
    """Rows of ``table`` [groups * codebook_size, width], group by group: [batch, groups, frames, width]."""
    offsets = author.constant(np.arange(config.num_quantizers)[:, None] * config.codebook_size)
    return author.op("Gather", table, author.op("Add", codes, offsets))


def sliding_transformer(
    weights: CheckpointWeights, here: str, config: AnyCode2WavConfig, x: str, inputs: DecoderInputs
) -> str:
    """Transformer layers and the final norm, [batch, frames, hidden] -> the same.

    Every frame attends to itself and the ``sliding_window - 1`` frames before it.
    """
    hidden, epsilon = config.hidden_size, config.rms_norm_eps
    mask = folded_mask(weights.author, inputs.mask, config.num_attention_heads, config.num_key_value_heads)
    weights.tensors.check_length(f"{here}.layers", config.num_hidden_layers)
    for layer in range(config.num_hidden_layers):
        at = f"{here}.layers.{layer}"
        with weights.author.scope(f"layer_{layer}"):
            y = rms_norm(weights, f"{at}.input_layernorm", x, hidden, epsilon)
            y = _attention(weights, f"{at}.self_attn", config, layer, y, mask, inputs.rope)
            x = _add_scaled(weights, f"{at}.self_attn_layer_scale", x, y, hidden)
            y = rms_norm(weights, f"{at}.post_attention_layernorm", x, hidden, epsilon)
            y = gated_mlp(weights, f"{at}.mlp", y, hidden, config.intermediate_size)
            x = _add_scaled(weights, f"{at}.mlp_layer_scale", x, y, hidden)
    return rms_norm(weights, f"{here}.norm", x, hidden, epsilon)


def _attention(
    weights: CheckpointWeights,
    at: str,
    config: AnyCode2WavConfig,
    layer: int,
    x: str,
    mask: str,
    rope: tuple[str, str],
) -> str:
    author = weights.author
    heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim

    def split(name: str, count: int) -> str:
        y = linear(weights, f"{at}.{name}", x, config.hidden_size, count * width, bias=False)
        return swap_heads(author, author.op("Reshape", y, author.constant([0, 0, count, width])))

    window = (kv_heads, config.sliding_window - 1, width)
    query = author.op("RotaryEmbedding", split("q_proj", heads), *rope)
    key = author.op("RotaryEmbedding", split("k_proj", kv_heads), *rope)
    key = carry(author, f"key_{layer}", key, window, axis=2)
    value = carry(author, f"value_{layer}", split("v_proj", kv_heads), window, axis=2)
    y = folded_attention(author, query, key, value, mask, heads, kv_heads, width)
    return linear(weights, f"{at}.o_proj", y, heads * width, config.hidden_size, bias=False)


def _add_scaled(weights: CheckpointWeights, name: str, x: str, y: str, width: int) -> str:
    """x + scale * y (LayerScale, arXiv 2103.17239)."""
    author = weights.author
    return author.op("Add", x, author.op("Mul", y, weights.plain(f"{name}.scale", (width,))))


def upsample(weights: CheckpointWeights, here: str, config: AnyCode2WavConfig, x: str, width: int) -> str:
    """Widens time by each of ``upsampling_ratios``: [batch, width, 1, frames] -> [batch, width, 1, columns]."""
    for stage, ratio in enumerate(config.upsampling_ratios):
        x = causal_transposed_convolution(weights, f"{here}.{stage}.0.conv", x, width, width, ratio, ratio)
        x = conv_next(weights, f"{here}.{stage}.1", x, width)
    return x


def vocoder(
    weights: CheckpointWeights,
    here: str,
    config: AnyCode2WavConfig,
    x: str,
    width: int,
    present: Sequence[str] = (),
) -> str:
    """Columns to samples: widens time by each of ``upsample_rates`` and halves the channels each time.

    Args:
        weights: of the graph.
        here: the module's name in the checkpoint.
        config: the decoder's dimensions.
        x: [batch, width, 1, columns].
        width: channels of ``x``.
        present: for each rate [batch, 1, 1, columns behind it], 1 where the column exists and 0 where it
            must count as padding; none if all exist.

    Returns:
        [batch, 1, 1, samples], not limited.
    """
    author, wide = weights.author, config.decoder_dim

    def existing(x: str) -> str:
        return author.op("Mul", x, present[stage - 1]) if present else x

    x = causal_convolution(weights, f"{here}.0.conv", x, width, wide, _VOCODER_KERNEL)
    for stage, rate in enumerate(config.upsample_rates, start=1):
        block, narrow = f"{here}.{stage}.block", wide // 2
        x = snake(weights, f"{block}.0", x, wide)
        x = causal_transposed_convolution(weights, f"{block}.1.conv", x, wide, narrow, 2 * rate, rate)
        for unit, dilation in enumerate(RESIDUAL_DILATIONS, start=2):
            x = residual_unit(weights, f"{block}.{unit}", existing(x), narrow, dilation)
        wide = narrow
    last = stage + 1
    x = snake(weights, f"{here}.{last}", existing(x), wide)
    return causal_convolution(weights, f"{here}.{last + 1}.conv", x, wide, 1, _VOCODER_KERNEL)


def output_waveform(author: GraphAuthor, samples: str) -> None:
    """Limit ``samples`` [batch, 1, 1, samples] to ±1 and declare them as ``waveform`` [batch, 1, samples]."""
    limited = author.op("Clip", samples, author.constant(-1.0), author.constant(1.0))
    author.output("waveform", author.op("Squeeze", limited, author.constant([2])), ["batch", 1, "samples"])
