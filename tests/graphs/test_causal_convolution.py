"""The causal layers against their definitions in float64, with zeros padded on the left, cut anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.tensors import TensorSource, open_tensors, write_tensors
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.causal_convolution import (
    causal_convolution,
    causal_transposed_convolution,
    conv_next,
    depthwise_causal_convolution,
    residual_unit,
    snake,
)
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights
from tests.graphs.decoding import open_session

Tensors = dict[str, np.ndarray]
Layer = Callable[[CheckpointWeights, str], str]  # (weights, x) -> y
BATCH, TIME = 2, 23
CUTS = ([0, 23], list(range(24)), [0, 1, 3, 4, 20, 23])


def run_in_chunks(directory: Path, tensors: Tensors, layer: Layer, x: np.ndarray) -> list[np.ndarray]:
    """y of ``layer`` for each way in ``CUTS`` of cutting x [batch, channels, time], from zero states."""
    path = directory / "model.safetensors"
    write_tensors(path, [as_source(name, tensor) for name, tensor in tensors.items()])
    author = GraphAuthor("layer")
    value = layer(
        CheckpointWeights(author, open_tensors(path, CheckpointError)),
        author.input("x", ["batch", x.shape[1], 1, "time"]),
    )
    author.output("y", value, ["batch", "channels", 1, "columns"])
    author.save(directory / "layer.onnx")
    session = open_session(directory / "layer.onnx")
    names = [info.name for info in session.get_outputs()]
    results = []
    for cuts in CUTS:
        state = {i.name: np.zeros((BATCH, *i.shape[1:]), np.float32) for i in session.get_inputs() if i.name != "x"}
        parts = []
        for start, end in pairwise(cuts):
            feeds = {"x": x[:, :, None, start:end], **state}
            outputs = dict(zip(names, session.run(names, feeds), strict=True))
            state = {name: outputs[f"next_{name}"] for name in state}
            parts.append(outputs["y"][:, :, 0])
        results.append(np.concatenate(parts, axis=2))
    return results


def as_source(name: str, tensor: np.ndarray) -> TensorSource:
    return TensorSource(name, tensor.shape, lambda: [tensor.reshape(-1)])


def random(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def convolved(x: np.ndarray, tensors: Tensors, name: str, dilation: int = 1) -> np.ndarray:
    """Left-padded convolution: y[t] = b + sum over j of W[..., j] x[t - (kernel - 1 - j) * dilation]."""
    weight = tensors[f"{name}.weight"].astype(np.float64)
    kernel, time = weight.shape[2], x.shape[2]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), ((kernel - 1) * dilation, 0)))
    depthwise = weight.shape[1] == 1 and x.shape[1] > 1
    taps = [padded[:, :, j * dilation : j * dilation + time] for j in range(kernel)]
    products = [weight[:, :, j] * tap if depthwise else weight[:, :, j] @ tap for j, tap in enumerate(taps)]
    return np.asarray(np.sum(products, axis=0) + tensors[f"{name}.bias"][:, None])


def snaked(x: np.ndarray, tensors: Tensors, name: str) -> np.ndarray:
    alpha, beta = (np.exp(tensors[f"{name}.{part}"].astype(np.float64))[:, None] for part in ("alpha", "beta"))
    return np.asarray(x + np.sin(x * alpha) ** 2 / (beta + 1e-9))


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (7, 1), (7, 3), (7, 9)])
def test_a_zero_state_is_left_padding_with_zeros(tmp_path: Path, kernel: int, dilation: int) -> None:
    rng = np.random.default_rng(kernel * dilation)
    x, tensors = random(rng, BATCH, 5, TIME), {"c.weight": random(rng, 4, 5, kernel), "c.bias": random(rng, 4)}
    found = run_in_chunks(tmp_path, tensors, lambda w, v: causal_convolution(w, "c", v, 5, 4, kernel, dilation), x)
    for y in found:
        np.testing.assert_allclose(y, convolved(x, tensors, "c", dilation), rtol=0, atol=1e-5)


def test_a_depthwise_convolution_keeps_channels_apart(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x, tensors = random(rng, BATCH, 16, TIME), {"d.weight": random(rng, 16, 1, 7), "d.bias": random(rng, 16)}
    for y in run_in_chunks(tmp_path, tensors, lambda w, v: depthwise_causal_convolution(w, "d", v, 16, 7), x):
        np.testing.assert_allclose(y, convolved(x, tensors, "d"), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (6, 3), (16, 8), (9, 3)])
def test_a_transposed_convolution_spreads_each_column_over_kernel_columns(
    tmp_path: Path, kernel: int, stride: int
) -> None:
    """Definition: column i adds W x[i] to the output columns i * stride … i * stride + kernel - 1."""
    rng = np.random.default_rng(kernel)
    x, tensors = random(rng, BATCH, 5, TIME), {"t.weight": random(rng, 5, 4, kernel), "t.bias": random(rng, 4)}
    expected = np.zeros((BATCH, 4, (TIME - 1) * stride + kernel)) + tensors["t.bias"].astype(np.float64)[:, None]
    for column in range(TIME):
        spread = np.einsum("bc,cok->bok", x[:, :, column], tensors["t.weight"])
        expected[:, :, column * stride : column * stride + kernel] += spread
    expected = expected[:, :, : TIME * stride]
    for y in run_in_chunks(
        tmp_path, tensors, lambda w, v: causal_transposed_convolution(w, "t", v, 5, 4, kernel, stride), x
    ):
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)


def test_snake_follows_its_formula(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x, tensors = 3 * random(rng, BATCH, 6, TIME), {"s.alpha": random(rng, 6), "s.beta": random(rng, 6)}
    for y in run_in_chunks(tmp_path, tensors, lambda w, v: snake(w, "s", v, 6), x):
        np.testing.assert_allclose(y, snaked(x, tensors, "s"), rtol=0, atol=2e-5)


def test_a_residual_unit_follows_its_formula(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = random(rng, BATCH, 6, TIME)
    tensors = {f"r.{act}.{part}": random(rng, 6) for act in ("act1", "act2") for part in ("alpha", "beta")}
    for conv, kernel in (("conv1", 7), ("conv2", 1)):
        tensors |= {f"r.{conv}.conv.weight": 0.2 * random(rng, 6, 6, kernel), f"r.{conv}.conv.bias": random(rng, 6)}
    inner = convolved(snaked(x, tensors, "r.act1"), tensors, "r.conv1.conv", dilation=3)
    expected = x + convolved(snaked(inner, tensors, "r.act2"), tensors, "r.conv2.conv")
    for y in run_in_chunks(tmp_path, tensors, lambda w, v: residual_unit(w, "r", v, 6, 3), x):
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-4)


def test_a_conv_next_block_follows_its_formula(tmp_path: Path) -> None:
    rng, width = np.random.default_rng(4), 6
    x = random(rng, BATCH, width, TIME)
    shapes = {
        "dwconv.conv.weight": (width, 1, 7), "dwconv.conv.bias": (width,), "norm.weight": (width,),
        "norm.bias": (width,), "pwconv1.weight": (4 * width, width), "pwconv1.bias": (4 * width,),
        "pwconv2.weight": (width, 4 * width), "pwconv2.bias": (width,), "gamma": (width,),
    }  # fmt: skip
    tensors = {f"n.{name}": random(rng, *shape) for name, shape in shapes.items()}
    rows = convolved(x, tensors, "n.dwconv.conv").swapaxes(1, 2)
    centered = rows - rows.mean(axis=2, keepdims=True)
    rows = centered / np.sqrt(centered.var(axis=2, keepdims=True) + 1e-6)
    rows = rows * tensors["n.norm.weight"] + tensors["n.norm.bias"]
    rows = rows @ tensors["n.pwconv1.weight"].T + tensors["n.pwconv1.bias"]
    rows = rows * (1 + np.vectorize(math.erf)(rows / math.sqrt(2))) / 2
    rows = rows @ tensors["n.pwconv2.weight"].T + tensors["n.pwconv2.bias"]
    expected = x + (tensors["n.gamma"] * rows).swapaxes(1, 2)
    for y in run_in_chunks(tmp_path, tensors, lambda w, v: conv_next(w, "n", v, width), x):
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-4)
