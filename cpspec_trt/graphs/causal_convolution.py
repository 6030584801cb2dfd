"""Causal convolutions over time that can be cut anywhere: what a chunk needs from earlier ones is graph state.

Values are [batch, channels, 1, time]: images of one row, because ONNX Runtime's blocked kernels for
images are faster on the CPU than its one-dimensional convolution, and TensorRT turns one into the other.

A convolution of kernel k and dilation d sees (k - 1) * d columns before its own. Those columns are its
state. A state of zeros at the start of a sequence is the left padding with zeros of the whole decode:
the padding belongs to the convolution's own input, and nothing else looks at it.
"""

from __future__ import annotations

import numpy as np

from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.checkpoint_weights import Array, CheckpointWeights
from cpspec_trt.graphs.layers import linear

TIME = 3  # axis of [batch, channels, 1, time]
RESIDUAL_KERNEL = 7
RESIDUAL_DILATIONS = (1, 3, 9)
_CONV_NEXT_KERNEL = 7
_CONV_NEXT_EPSILON = 1e-6
_SNAKE_EPSILON = 1e-9
_END = np.iinfo(np.int64).max


def carry(author: GraphAuthor, name: str, new: str, shape: tuple[int, ...], axis: int) -> str:
    """Put the state called ``name`` before ``new`` along ``axis``; the end of both is the next chunk's state.

    Declares the graph input ``state_<name>`` and the graph output ``next_state_<name>``, both
    [batch, *shape]. Returns the joined value.
    """
    state = author.input(f"state_{name}", ["batch", *shape])
    joined = author.op("Concat", state, new, axis=axis)
    start, end, axes = author.constant([-shape[axis - 1]]), author.constant([_END]), author.constant([axis])
    author.output(f"next_state_{name}", author.op("Slice", joined, start, end, axes), ["batch", *shape])
    return joined


def causal_convolution(
    weights: CheckpointWeights, name: str, x: str, inputs: int, outputs: int, kernel: int, dilation: int = 1
) -> str:
    """Convolution of stride 1 with ``<name>.weight`` [outputs, inputs, kernel] and ``<name>.bias``.

    [batch, inputs, 1, time] -> [batch, outputs, 1, time].
    """
    return _convolution(weights, name, x, (outputs, inputs, kernel), inputs, dilation, groups=1)


def depthwise_causal_convolution(weights: CheckpointWeights, name: str, x: str, channels: int, kernel: int) -> str:
    """As ``causal_convolution``, each channel on its own: ``<name>.weight`` is [channels, 1, kernel]."""
    return _convolution(weights, name, x, (channels, 1, kernel), channels, dilation=1, groups=channels)


def _convolution(
    weights: CheckpointWeights, name: str, x: str, stored: tuple[int, int, int], inputs: int, dilation: int, groups: int
) -> str:
    outputs, per_group, kernel = stored
    weight = weights.made(
        f"{name}.weight",
        (outputs, per_group, 1, kernel),
        {f"{name}.weight": stored},
        lambda tensors: tensors[f"{name}.weight"][:, :, None],
    )
    context = (kernel - 1) * dilation
    if context:
        x = carry(weights.author, state_name(name), x, (inputs, 1, context), TIME)
    bias = weights.plain(f"{name}.bias", (outputs,))
    return weights.author.op("Conv", x, weight, bias, kernel_shape=[1, kernel], dilations=[1, dilation], group=groups)


def causal_transposed_convolution(
    weights: CheckpointWeights, name: str, x: str, inputs: int, outputs: int, kernel: int, stride: int
) -> str:
    """Transposed convolution, ``stride`` output columns per input column, written as a convolution.

    [batch, inputs, 1, time] -> [batch, outputs, 1, time * stride]. With ``<name>.weight`` W [inputs,
    outputs, kernel] and kernel = taps * stride, output column i * stride + r is

        bias + sum over j < taps of W[:, :, j * stride + r] x[i - j],

    an ordinary causal convolution with ``taps`` taps and one set of channels per phase r. It is the
    transposed convolution without its last ``kernel - stride`` columns, which a later input column
    would still change. A decoder that also drops columns at the start can cut them off the result.
    """
    author, taps = weights.author, kernel // stride

    def phases(tensors: dict[str, Array]) -> Array:
        split = tensors[f"{name}.weight"].reshape(inputs, outputs, taps, stride)
        oldest_first = split[:, :, ::-1].transpose(1, 3, 0, 2)  # [outputs, stride, inputs, taps]
        return oldest_first.reshape(outputs * stride, inputs, 1, taps)

    stored = {f"{name}.weight": (inputs, outputs, kernel)}
    weight = weights.made(f"{name}.weight", (outputs * stride, inputs, 1, taps), stored, phases)
    bias = weights.made(
        f"{name}.bias",
        (outputs * stride,),
        {f"{name}.bias": (outputs,)},
        lambda tensors: np.repeat(tensors[f"{name}.bias"], stride),
    )
    if taps > 1:
        x = carry(author, state_name(name), x, (inputs, 1, taps - 1), TIME)
    y = author.op("Conv", x, weight, bias, kernel_shape=[1, taps])
    y = author.op("Reshape", y, author.constant([0, outputs, stride, -1]))
    y = author.op("Transpose", y, perm=[0, 1, 3, 2])
    return author.op("Reshape", y, author.constant([0, outputs, 1, -1]))


def snake(weights: CheckpointWeights, name: str, x: str, channels: int) -> str:
    """x + sin(x * e^alpha)^2 / (e^beta + 1e-9) per channel (SnakeBeta, after arXiv 2006.08195)."""
    author, shape = weights.author, (channels, 1, 1)
    frequency = weights.made(
        f"{name}.alpha", shape, {f"{name}.alpha": (channels,)}, lambda t: np.exp(t[f"{name}.alpha"]).reshape(shape)
    )
    magnitude = weights.made(
        f"{name}.beta",
        shape,
        {f"{name}.beta": (channels,)},
        lambda t: (np.float32(1.0) / (np.exp(t[f"{name}.beta"]) + np.float32(_SNAKE_EPSILON))).reshape(shape),
    )
    wave = author.op("Sin", author.op("Mul", x, frequency))
    return author.op("Add", x, author.op("Mul", author.op("Mul", wave, wave), magnitude))


def residual_unit(weights: CheckpointWeights, name: str, x: str, channels: int, dilation: int) -> str:
    """x + conv2(snake(conv1(snake(x)))): a dilated convolution of kernel 7, then one of kernel 1."""
    y = snake(weights, f"{name}.act1", x, channels)
    y = causal_convolution(weights, f"{name}.conv1.conv", y, channels, channels, RESIDUAL_KERNEL, dilation)
    y = snake(weights, f"{name}.act2", y, channels)
    y = causal_convolution(weights, f"{name}.conv2.conv", y, channels, channels, kernel=1)
    return weights.author.op("Add", y, x)


def conv_next(weights: CheckpointWeights, name: str, x: str, channels: int) -> str:
    """ConvNeXt block: x + gamma * linear(GELU(linear(LayerNorm(depthwise convolution of x)))), erf GELU."""
    author = weights.author
    y = depthwise_causal_convolution(weights, f"{name}.dwconv.conv", x, channels, _CONV_NEXT_KERNEL)
    y = to_rows(author, y)
    scale = weights.plain(f"{name}.norm.weight", (channels,))
    shift = weights.plain(f"{name}.norm.bias", (channels,))
    y = author.op("LayerNormalization", y, scale, shift, axis=-1, epsilon=_CONV_NEXT_EPSILON)
    y = author.op("Gelu", linear(weights, f"{name}.pwconv1", y, channels, 4 * channels))
    y = linear(weights, f"{name}.pwconv2", y, 4 * channels, channels)
    y = author.op("Mul", y, weights.plain(f"{name}.gamma", (channels,)))
    return author.op("Add", x, to_columns(author, y))


def to_rows(author: GraphAuthor, x: str) -> str:
    """[batch, channels, 1, time] -> [batch, time, channels]."""
    return author.op("Squeeze", author.op("Transpose", x, perm=[0, 2, 3, 1]), author.constant([1]))


def to_columns(author: GraphAuthor, x: str) -> str:
    """[batch, time, channels] -> [batch, channels, 1, time]."""
    return author.op("Transpose", author.op("Unsqueeze", x, author.constant([1])), perm=[0, 3, 1, 2])


def state_name(name: str) -> str:
    """``decoder.decoder.1.block.2.conv1.conv`` -> ``decoder_1_block_2_conv1``: the module's path in its model."""
    _, _, path = name.partition(".")
    return (path or name).removesuffix(".conv").replace(".", "_")
