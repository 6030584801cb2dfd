"""Plans of the layers between codes and samples that both families' decoders have, in the published names.

The gains keep every stage near unit scale and the waveform clear of its limits of ±1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import Protocol

from cpspec_trt.synthetic.layers import BIAS, NORM, layer_norm
from cpspec_trt.synthetic.layers import linear as wide_linear
from cpspec_trt.synthetic.weights import Law, TensorPlan, fan_in, spread

SNAKE = spread(0.1)  # logarithms of frequency and magnitude
LAYER_SCALE = Law(0.25, 0.15)
_RESIDUAL_DILATIONS = (1, 3, 9)


class TransformerShape(Protocol):
    """Dimensions of the sliding-window transformer in front of the convolutions."""

    @property
    def hidden_size(self) -> int: ...
    @property
    def intermediate_size(self) -> int: ...
    @property
    def num_hidden_layers(self) -> int: ...
    @property
    def num_attention_heads(self) -> int: ...
    @property
    def num_key_value_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...


def transformer_layers(prefix: str, shape: TransformerShape) -> Iterator[TensorPlan]:
    """Layers with layer scales and without q/k norms, and the final norm."""
    hidden, inner = shape.hidden_size, shape.intermediate_size
    queries = shape.num_attention_heads * shape.head_dim
    keys = shape.num_key_value_heads * shape.head_dim
    for layer in range(shape.num_hidden_layers):
        at = f"{prefix}.layers.{layer}"
        yield TensorPlan(f"{at}.input_layernorm.weight", (hidden,), NORM)
        yield from linear(f"{at}.self_attn.q_proj", hidden, queries)
        yield from linear(f"{at}.self_attn.k_proj", hidden, keys)
        yield from linear(f"{at}.self_attn.v_proj", hidden, keys)
        yield from linear(f"{at}.self_attn.o_proj", queries, hidden)
        yield TensorPlan(f"{at}.self_attn_layer_scale.scale", (hidden,), LAYER_SCALE)
        yield TensorPlan(f"{at}.post_attention_layernorm.weight", (hidden,), NORM)
        yield from linear(f"{at}.mlp.gate_proj", hidden, inner)
        yield from linear(f"{at}.mlp.up_proj", hidden, inner)
        yield from linear(f"{at}.mlp.down_proj", inner, hidden)
        yield TensorPlan(f"{at}.mlp_layer_scale.scale", (hidden,), LAYER_SCALE)
    yield TensorPlan(f"{prefix}.norm.weight", (hidden,), NORM)


def upsampling(prefix: str, width: int, ratios: tuple[int, ...]) -> Iterator[TensorPlan]:
    """For each ratio a transposed convolution whose kernel is its stride, and a ConvNeXt block."""
    for stage, ratio in enumerate(ratios):
        here = f"{prefix}.{stage}"
        yield from transposed_convolution(f"{here}.0.conv", width, width, ratio, ratio)
        yield from _conv_next(f"{here}.1", width)


def vocoder(prefix: str, inputs: int, decoder_dim: int, rates: tuple[int, ...]) -> Iterator[TensorPlan]:
    """Convolutions that widen time by ``rates`` while they halve the channels."""
    widths = [decoder_dim >> stage for stage in range(len(rates) + 1)]
    yield from convolution(f"{prefix}.0.conv", inputs, decoder_dim, 7)
    for stage, ((wide, narrow), rate) in enumerate(zip(pairwise(widths), rates, strict=True), start=1):
        block = f"{prefix}.{stage}.block"
        yield from _snake(f"{block}.0", wide)
        yield from transposed_convolution(f"{block}.1.conv", wide, narrow, 2 * rate, rate)
        for unit, _ in enumerate(_RESIDUAL_DILATIONS, start=2):
            yield from _snake(f"{block}.{unit}.act1", narrow)
            yield from convolution(f"{block}.{unit}.conv1.conv", narrow, narrow, 7, gain=0.5)
            yield from _snake(f"{block}.{unit}.act2", narrow)
            yield from convolution(f"{block}.{unit}.conv2.conv", narrow, narrow, 1, gain=0.5)
    last = len(rates) + 1
    yield from _snake(f"{prefix}.{last}", widths[-1])
    yield from convolution(f"{prefix}.{last + 1}.conv", widths[-1], 1, 7, gain=0.07)


def samples_per_frame(rates: tuple[int, ...], ratios: tuple[int, ...]) -> int:
    """Samples that one frame of codes widens to."""
    return prod(rates) * prod(ratios)


def linear(name: str, inputs: int, outputs: int, bias: bool = False) -> Iterator[TensorPlan]:
    """A matrix that keeps the scale of its input."""
    return wide_linear(name, inputs, outputs, bias, gain=1.0)


def convolution(
    name: str, inputs: int, outputs: int, kernel: int, bias: bool = True, gain: float = 1.0
) -> Iterator[TensorPlan]:
    """Weight [outputs, inputs, kernel] and bias."""
    yield TensorPlan(f"{name}.weight", (outputs, inputs, kernel), fan_in(inputs * kernel, gain))
    if bias:
        yield TensorPlan(f"{name}.bias", (outputs,), BIAS)


def transposed_convolution(name: str, inputs: int, outputs: int, kernel: int, stride: int) -> Iterator[TensorPlan]:
    """Weight [inputs, outputs, kernel] and bias; each output sample sees ``kernel / stride`` input columns."""
    yield TensorPlan(f"{name}.weight", (inputs, outputs, kernel), fan_in(inputs * kernel // stride, 1.0))
    yield TensorPlan(f"{name}.bias", (outputs,), BIAS)


def _conv_next(here: str, width: int) -> Iterator[TensorPlan]:
    yield TensorPlan(f"{here}.dwconv.conv.weight", (width, 1, 7), fan_in(7, 1.0))
    yield TensorPlan(f"{here}.dwconv.conv.bias", (width,), BIAS)
    yield from layer_norm(f"{here}.norm", width)
    yield from linear(f"{here}.pwconv1", width, 4 * width, bias=True)
    yield from linear(f"{here}.pwconv2", 4 * width, width, bias=True)
    yield TensorPlan(f"{here}.gamma", (width,), LAYER_SCALE)


def _snake(name: str, width: int) -> Iterator[TensorPlan]:
    yield TensorPlan(f"{name}.alpha", (width,), SNAKE)
    yield TensorPlan(f"{name}.beta", (width,), SNAKE)
