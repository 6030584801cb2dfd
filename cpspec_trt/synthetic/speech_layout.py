"""Tensors of ``speech_tokenizer/model.safetensors``: the 12 Hz decoder and the audio encoder, as published.

The gains keep every stage of the decoder near unit scale and the waveform clear of its limits of ±1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import prod

from cpspec_trt.synthetic.spec import SpeechDecoderSpec, SpeechEncoderSpec, TtsSpec
from cpspec_trt.synthetic.weights import Law, TensorPlan, fan_in, spread

_BIAS = spread(0.1)
_NORM = spread(0.1, center=1.0)
_SNAKE = spread(0.1)  # logarithms of frequency and magnitude
_LAYER_SCALE = Law(0.25, 0.15)
_CLUSTER_USAGE = Law(2.0, 1.5)
_RESIDUAL_DILATIONS = (1, 3, 9)


def speech_tensors(spec: TtsSpec) -> list[TensorPlan]:
    """Every tensor of the speech tokenizer, in the order in which it is stored."""
    return [*_decoder(spec), *_encoder(spec.encoder, spec.codebook_size)]


def _decoder(spec: TtsSpec) -> Iterator[TensorPlan]:
    shape = spec.decoder
    half = shape.codebook_dim // 2  # the quantizers work at half the width of what leaves them
    for name, depths in (("rvq_first", 1), ("rvq_rest", spec.num_code_groups - 1)):
        here = f"decoder.quantizer.{name}"
        yield from _convolution(f"{here}.input_proj", shape.codebook_dim, half, 1, bias=False)
        yield from _convolution(f"{here}.output_proj", half, shape.codebook_dim, 1, bias=False)
        for depth in range(depths):
            yield from _codebook(f"{here}.vq.layers.{depth}._codebook", "embedding_sum", spec.codebook_size, half)
    yield from _convolution("decoder.pre_conv.conv", shape.codebook_dim, shape.latent_dim, 3)
    yield from _pre_transformer(shape)
    for stage, ratio in enumerate(shape.upsampling_ratios):
        here = f"decoder.upsample.{stage}"
        yield from _transposed_convolution(f"{here}.0.conv", shape.latent_dim, shape.latent_dim, ratio, ratio)
        yield from _conv_next(f"{here}.1", shape.latent_dim)
    yield from _vocoder(shape)


def _codebook(here: str, sums: str, entries: int, width: int) -> Iterator[TensorPlan]:
    """Usage counts and sums whose quotient is the embedding.

    The last entry was never used, the one before so rarely that its count must be clamped to 1e-5.
    """
    rare, never = entries - 2, entries - 1
    yield TensorPlan(f"{here}.cluster_usage", (entries,), _CLUSTER_USAGE, row_factors=((rare, 5e-7), (never, 0.0)))
    yield TensorPlan(f"{here}.{sums}", (entries, width), spread(1.0), row_factors=((rare, 1e-5), (never, 0.0)))


def _pre_transformer(shape: SpeechDecoderSpec) -> Iterator[TensorPlan]:
    here, hidden, inner = "decoder.pre_transformer", shape.hidden_size, shape.intermediate_size
    queries = shape.num_attention_heads * shape.head_dim
    keys = shape.num_key_value_heads * shape.head_dim
    yield from _linear(f"{here}.input_proj", shape.latent_dim, hidden, bias=True)
    for layer in range(shape.num_hidden_layers):
        at = f"{here}.layers.{layer}"
        yield TensorPlan(f"{at}.input_layernorm.weight", (hidden,), _NORM)
        yield from _linear(f"{at}.self_attn.q_proj", hidden, queries)
        yield from _linear(f"{at}.self_attn.k_proj", hidden, keys)
        yield from _linear(f"{at}.self_attn.v_proj", hidden, keys)
        yield from _linear(f"{at}.self_attn.o_proj", queries, hidden)
        yield TensorPlan(f"{at}.self_attn_layer_scale.scale", (hidden,), _LAYER_SCALE)
        yield TensorPlan(f"{at}.post_attention_layernorm.weight", (hidden,), _NORM)
        yield from _linear(f"{at}.mlp.gate_proj", hidden, inner)
        yield from _linear(f"{at}.mlp.up_proj", hidden, inner)
        yield from _linear(f"{at}.mlp.down_proj", inner, hidden)
        yield TensorPlan(f"{at}.mlp_layer_scale.scale", (hidden,), _LAYER_SCALE)
    yield TensorPlan(f"{here}.norm.weight", (hidden,), _NORM)
    yield from _linear(f"{here}.output_proj", hidden, shape.latent_dim, bias=True)


def _conv_next(here: str, width: int) -> Iterator[TensorPlan]:
    yield TensorPlan(f"{here}.dwconv.conv.weight", (width, 1, 7), fan_in(7, 1.0))
    yield TensorPlan(f"{here}.dwconv.conv.bias", (width,), _BIAS)
    yield TensorPlan(f"{here}.norm.weight", (width,), _NORM)
    yield TensorPlan(f"{here}.norm.bias", (width,), _BIAS)
    yield from _linear(f"{here}.pwconv1", width, 4 * width, bias=True)
    yield from _linear(f"{here}.pwconv2", 4 * width, width, bias=True)
    yield TensorPlan(f"{here}.gamma", (width,), _LAYER_SCALE)


def _vocoder(shape: SpeechDecoderSpec) -> Iterator[TensorPlan]:
    """Convolutions that widen time by ``upsample_rates`` while they halve the channels."""
    here = "decoder.decoder"
    widths = [shape.decoder_dim >> stage for stage in range(len(shape.upsample_rates) + 1)]
    yield from _convolution(f"{here}.0.conv", shape.latent_dim, shape.decoder_dim, 7)
    for stage, ((wide, narrow), rate) in enumerate(zip(pairwise(widths), shape.upsample_rates, strict=True), start=1):
        block = f"{here}.{stage}.block"
        yield from _snake(f"{block}.0", wide)
        yield from _transposed_convolution(f"{block}.1.conv", wide, narrow, 2 * rate, rate)
        for unit, _ in enumerate(_RESIDUAL_DILATIONS, start=2):
            yield from _snake(f"{block}.{unit}.act1", narrow)
            yield from _convolution(f"{block}.{unit}.conv1.conv", narrow, narrow, 7, gain=0.5)
            yield from _snake(f"{block}.{unit}.act2", narrow)
            yield from _convolution(f"{block}.{unit}.conv2.conv", narrow, narrow, 1, gain=0.5)
    last = len(shape.upsample_rates) + 1
    yield from _snake(f"{here}.{last}", widths[-1])
    yield from _convolution(f"{here}.{last + 1}.conv", widths[-1], 1, 7, gain=0.07)


def _encoder(shape: SpeechEncoderSpec, codebook_size: int) -> Iterator[TensorPlan]:
    yield from _encoder_convolutions(shape)
    hidden, inner = shape.hidden_size, shape.intermediate_size
    heads = shape.num_attention_heads * shape.head_dim
    for layer in range(shape.num_hidden_layers):
        at = f"encoder.encoder_transformer.layers.{layer}"
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield TensorPlan(f"{at}.{name}.weight", (hidden,), _NORM)
            yield TensorPlan(f"{at}.{name}.bias", (hidden,), _BIAS)
        for name in ("q_proj", "k_proj", "v_proj"):
            yield from _linear(f"{at}.self_attn.{name}", hidden, heads)
        yield from _linear(f"{at}.self_attn.o_proj", heads, hidden)
        yield from _linear(f"{at}.mlp.fc1", hidden, inner)
        yield from _linear(f"{at}.mlp.fc2", inner, hidden)
        yield TensorPlan(f"{at}.self_attn_layer_scale.scale", (hidden,), _LAYER_SCALE)
        yield TensorPlan(f"{at}.mlp_layer_scale.scale", (hidden,), _LAYER_SCALE)
    yield from _convolution("encoder.downsample.conv", hidden, hidden, 4, bias=False)
    for name, depths in (("semantic", 1), ("acoustic", shape.num_quantizers - 1)):
        here = f"encoder.quantizer.{name}_residual_vector_quantizer"
        yield from _convolution(f"{here}.input_proj", hidden, shape.codebook_dim, 1, bias=False)
        yield from _convolution(f"{here}.output_proj", shape.codebook_dim, hidden, 1, bias=False)
        for depth in range(depths):
            codebook = f"{here}.layers.{depth}.codebook"
            yield TensorPlan(f"{codebook}.initialized", (1,), Law(1.0, 0.0))
            yield from _codebook(codebook, "embed_sum", codebook_size, shape.codebook_dim)


# The encoder's strides, first to last; with the downsampling by 2 they divide 24 kHz to 12.5 Hz.
ENCODER_STRIDES = (4, 5, 6, 8)


def _encoder_convolutions(shape: SpeechEncoderSpec) -> Iterator[TensorPlan]:
    """Module numbers count what has no weights (activations), hence the steps of three."""
    here, width = "encoder.encoder.layers", shape.num_filters
    yield from _convolution(f"{here}.0.conv", 1, width, 7)
    for stage, stride in enumerate(ENCODER_STRIDES):
        unit = f"{here}.{3 * stage + 1}.block"
        yield from _convolution(f"{unit}.1.conv", width, width // 2, 3)
        yield from _convolution(f"{unit}.3.conv", width // 2, width, 1)
        yield from _convolution(f"{here}.{3 * stage + 3}.conv", width, 2 * width, 2 * stride)
        width *= 2
    yield from _convolution(f"{here}.{3 * len(ENCODER_STRIDES) + 2}.conv", width, shape.hidden_size, 3)


def _convolution(
    name: str, inputs: int, outputs: int, kernel: int, bias: bool = True, gain: float = 1.0
) -> Iterator[TensorPlan]:
    yield TensorPlan(f"{name}.weight", (outputs, inputs, kernel), fan_in(inputs * kernel, gain))
    if bias:
        yield TensorPlan(f"{name}.bias", (outputs,), _BIAS)


def _transposed_convolution(name: str, inputs: int, outputs: int, kernel: int, stride: int) -> Iterator[TensorPlan]:
    """Each output sample sees ``kernel / stride`` input columns."""
    yield TensorPlan(f"{name}.weight", (inputs, outputs, kernel), fan_in(inputs * kernel // stride, 1.0))
    yield TensorPlan(f"{name}.bias", (outputs,), _BIAS)


def _linear(name: str, inputs: int, outputs: int, bias: bool = False) -> Iterator[TensorPlan]:
    yield TensorPlan(f"{name}.weight", (outputs, inputs), fan_in(inputs, 1.0))
    if bias:
        yield TensorPlan(f"{name}.bias", (outputs,), _BIAS)


def _snake(name: str, width: int) -> Iterator[TensorPlan]:
    yield TensorPlan(f"{name}.alpha", (width,), _SNAKE)
    yield TensorPlan(f"{name}.beta", (width,), _SNAKE)


def samples_per_frame(shape: SpeechDecoderSpec) -> int:
    """Samples that one frame of codes decodes to."""
    return prod(shape.upsample_rates) * prod(shape.upsampling_ratios)
