"""Tensors of the two encoders in a Qwen3-Omni checkpoint. Text input never runs them; a checkpoint has them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cpspec_trt.synthetic.layers import BIAS, EMBEDDING, layer_norm, linear
from cpspec_trt.synthetic.omni_spec import AudioEncoderSpec, VisionEncoderSpec
from cpspec_trt.synthetic.weights import TensorPlan, fan_in

_CHANNELS = 3
_TEMPORAL_PATCH = 2
_MERGED_PATCHES = 4  # 2 × 2 image patches become one row


def audio_tower_tensors(prefix: str, shape: AudioEncoderSpec, output_dim: int) -> Iterator[TensorPlan]:
    """Three convolutions that halve time and frequency, transformer layers, two projections."""
    width, channels = shape.d_model, shape.downsample_hidden_size
    for layer in range(shape.encoder_layers):
        at = f"{prefix}.layers.{layer}"
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            yield from linear(f"{at}.self_attn.{name}", width, width, bias=True)
        yield from layer_norm(f"{at}.self_attn_layer_norm", width)
        yield from linear(f"{at}.fc1", width, shape.encoder_ffn_dim, bias=True)
        yield from linear(f"{at}.fc2", shape.encoder_ffn_dim, width, bias=True)
        yield from layer_norm(f"{at}.final_layer_norm", width)
    yield from layer_norm(f"{prefix}.ln_post", width)
    bins = shape.num_mel_bins
    for number, inputs in enumerate((1, channels, channels), start=1):
        yield from _convolution(f"{prefix}.conv2d{number}", channels, (inputs, 3, 3))
        bins = (bins + 1) // 2
    yield from linear(f"{prefix}.conv_out", channels * bins, width)
    yield from linear(f"{prefix}.proj1", width, width, bias=True)
    yield from linear(f"{prefix}.proj2", width, output_dim, bias=True)


def visual_tensors(prefix: str, shape: VisionEncoderSpec, output_dim: int) -> Iterator[TensorPlan]:
    """Patches, transformer blocks, and mergers: one for the output, one for each deepstack layer."""
    width, patch = shape.hidden_size, shape.patch_size
    merged = _MERGED_PATCHES * width
    for number in range(len(shape.deepstack_visual_indexes)):
        yield from _merger(f"{prefix}.merger_list.{number}", merged, merged, output_dim)
    yield from _convolution(f"{prefix}.patch_embed.proj", width, (_CHANNELS, _TEMPORAL_PATCH, patch, patch))
    yield TensorPlan(f"{prefix}.pos_embed.weight", (shape.num_position_embeddings, width), EMBEDDING)
    for block in range(shape.depth):
        at = f"{prefix}.blocks.{block}"
        yield from layer_norm(f"{at}.norm1", width)
        yield from layer_norm(f"{at}.norm2", width)
        yield from linear(f"{at}.attn.qkv", width, 3 * width, bias=True)
        yield from linear(f"{at}.attn.proj", width, width, bias=True)
        yield from linear(f"{at}.mlp.linear_fc1", width, shape.intermediate_size, bias=True)
        yield from linear(f"{at}.mlp.linear_fc2", shape.intermediate_size, width, bias=True)
    yield from _merger(f"{prefix}.merger", width, merged, output_dim)


def _merger(here: str, normed: int, merged: int, output_dim: int) -> Iterator[TensorPlan]:
    """Deepstack mergers normalise after the patches are joined, the last one before."""
    yield from layer_norm(f"{here}.ln_q", normed)
    yield from linear(f"{here}.mlp.0", merged, merged, bias=True)
    yield from linear(f"{here}.mlp.2", merged, output_dim, bias=True)


def _convolution(name: str, outputs: int, window: tuple[int, ...]) -> Iterator[TensorPlan]:
    yield TensorPlan(f"{name}.weight", (outputs, *window), fan_in(prod(window), 1.0))
    yield TensorPlan(f"{name}.bias", (outputs,), BIAS)
