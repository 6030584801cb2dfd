"""Tensors of ``speech_tokenizer/model.safetensors``: the 12 Hz decoder and the audio encoder, as published."""

from __future__ import annotations

from collections.abc import Iterator

from cpspec_trt.synthetic import vocoder_layout
from cpspec_trt.synthetic.layers import layer_norm
from cpspec_trt.synthetic.spec import SpeechDecoderSpec, SpeechEncoderSpec, TtsSpec
from cpspec_trt.synthetic.vocoder_layout import (
    LAYER_SCALE,
    convolution,
    linear,
    transformer_layers,
    upsampling,
    vocoder,
)
from cpspec_trt.synthetic.weights import Law, TensorPlan, spread

_CLUSTER_USAGE = Law(2.0, 1.5)

# The encoder's strides, first to last; with the downsampling by 2 they divide 24 kHz to 12.5 Hz.
ENCODER_STRIDES = (4, 5, 6, 8)


def speech_tensors(spec: TtsSpec) -> list[TensorPlan]:
    """Every tensor of the speech tokenizer, in the order in which it is stored."""
    return [*_decoder(spec), *_encoder(spec.encoder, spec.codebook_size)]


def samples_per_frame(shape: SpeechDecoderSpec) -> int:
    """Samples that one frame of codes decodes to."""
    return vocoder_layout.samples_per_frame(shape.upsample_rates, shape.upsampling_ratios)


def _decoder(spec: TtsSpec) -> Iterator[TensorPlan]:
    shape = spec.decoder
    half = shape.codebook_dim // 2  # the quantizers work at half the width of what leaves them
    for name, depths in (("rvq_first", 1), ("rvq_rest", spec.num_code_groups - 1)):
        here = f"decoder.quantizer.{name}"
        yield from convolution(f"{here}.input_proj", shape.codebook_dim, half, 1, bias=False)
        yield from convolution(f"{here}.output_proj", half, shape.codebook_dim, 1, bias=False)
        for depth in range(depths):
            yield from _codebook(f"{here}.vq.layers.{depth}._codebook", "embedding_sum", spec.codebook_size, half)
    yield from convolution("decoder.pre_conv.conv", shape.codebook_dim, shape.latent_dim, 3)
    yield from _pre_transformer(shape)
    yield from upsampling("decoder.upsample", shape.latent_dim, shape.upsampling_ratios)
    yield from vocoder("decoder.decoder", shape.latent_dim, shape.decoder_dim, shape.upsample_rates)


def _codebook(here: str, sums: str, entries: int, width: int) -> Iterator[TensorPlan]:
    """Usage counts and sums whose quotient is the embedding.

    The last entry was never used, the one before so rarely that its count must be clamped to 1e-5.
    """
    rare, never = entries - 2, entries - 1
    yield TensorPlan(f"{here}.cluster_usage", (entries,), _CLUSTER_USAGE, row_factors=((rare, 5e-7), (never, 0.0)))
    yield TensorPlan(f"{here}.{sums}", (entries, width), spread(1.0), row_factors=((rare, 1e-5), (never, 0.0)))


def _pre_transformer(shape: SpeechDecoderSpec) -> Iterator[TensorPlan]:
    here = "decoder.pre_transformer"
    yield from linear(f"{here}.input_proj", shape.latent_dim, shape.hidden_size, bias=True)
    yield from transformer_layers(here, shape)
    yield from linear(f"{here}.output_proj", shape.hidden_size, shape.latent_dim, bias=True)


def _encoder(shape: SpeechEncoderSpec, codebook_size: int) -> Iterator[TensorPlan]:
    yield from _encoder_convolutions(shape)
    hidden, inner = shape.hidden_size, shape.intermediate_size
    heads = shape.num_attention_heads * shape.head_dim
    for layer in range(shape.num_hidden_layers):
        at = f"encoder.encoder_transformer.layers.{layer}"
        yield from layer_norm(f"{at}.input_layernorm", hidden)
        yield from layer_norm(f"{at}.post_attention_layernorm", hidden)
        for name in ("q_proj", "k_proj", "v_proj"):
            yield from linear(f"{at}.self_attn.{name}", hidden, heads)
        yield from linear(f"{at}.self_attn.o_proj", heads, hidden)
        yield from linear(f"{at}.mlp.fc1", hidden, inner)
        yield from linear(f"{at}.mlp.fc2", inner, hidden)
        yield TensorPlan(f"{at}.self_attn_layer_scale.scale", (hidden,), LAYER_SCALE)
        yield TensorPlan(f"{at}.mlp_layer_scale.scale", (hidden,), LAYER_SCALE)
    yield from convolution("encoder.downsample.conv", hidden, hidden, 4, bias=False)
    for name, depths in (("semantic", 1), ("acoustic", shape.num_quantizers - 1)):
        here = f"encoder.quantizer.{name}_residual_vector_quantizer"
        yield from convolution(f"{here}.input_proj", hidden, shape.codebook_dim, 1, bias=False)
        yield from convolution(f"{here}.output_proj", shape.codebook_dim, hidden, 1, bias=False)
        for depth in range(depths):
            codebook = f"{here}.layers.{depth}.codebook"
            yield TensorPlan(f"{codebook}.initialized", (1,), Law(1.0, 0.0))
            yield from _codebook(codebook, "embed_sum", codebook_size, shape.codebook_dim)


def _encoder_convolutions(shape: SpeechEncoderSpec) -> Iterator[TensorPlan]:
    """Module numbers count what has no weights (activations), hence the steps of three."""
    here, width = "encoder.encoder.layers", shape.num_filters
    yield from convolution(f"{here}.0.conv", 1, width, 7)
    for stage, stride in enumerate(ENCODER_STRIDES):
        unit = f"{here}.{3 * stage + 1}.block"
        yield from convolution(f"{unit}.1.conv", width, width // 2, 3)
        yield from convolution(f"{unit}.3.conv", width // 2, width, 1)
        yield from convolution(f"{here}.{3 * stage + 3}.conv", width, 2 * width, 2 * stride)
        width *= 2
    yield from convolution(f"{here}.{3 * len(ENCODER_STRIDES) + 2}.conv", width, shape.hidden_size, 3)
