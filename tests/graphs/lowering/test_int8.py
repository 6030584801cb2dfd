"""int8 matrices: against numpy with the same rounding of weights and activations, and the same bits in any pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from cpspec_trt.graphs.authoring import GraphAuthor, Weight
from cpspec_trt.graphs.lowering.int8 import BLOCK, ZERO_POINT, quantize, write_int8
from tests.graphs.lowering.conftest import Open
from tests.graphs.lowering.exports import DECODERS, feeds_of, run

SIZES = [(32, 16), (64, 48), (40, 7), (33, 1), (1024, 64), (3072, 32)]
#: Sums of K products in another order, and activations halfway between two integers, which may go either way.
TOLERANCE = 2e-3


def random(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def product_session(directory: Path, weight: np.ndarray, threads: int = 1) -> ort.InferenceSession:
    """y = x W with W [K, N] in int8."""
    author = GraphAuthor("product")
    x = author.input("x", ["rows", weight.shape[0]])
    y = author.op("MatMul", x, author.weight(Weight("w", weight.shape, lambda: weight)))
    author.output("y", y, ["rows", weight.shape[1]])
    author.save(directory / "model.onnx")
    (directory / "int8").mkdir()
    model = onnx.load(directory / "model.onnx", load_external_data=False)
    assert write_int8(model, directory, directory / "int8" / "llm.onnx").matrices == 1
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(directory / "int8" / "llm.onnx", options, providers=["CPUExecutionProvider"])


def dequantized(packed: np.ndarray, scales: np.ndarray, length: int) -> np.ndarray:
    """float64 [K, N]."""
    blocks = (packed.astype(np.float64) - ZERO_POINT) * scales[:, :, None]
    return np.asarray(blocks.reshape(len(packed), -1).T[:length])


def rounded(x: np.ndarray) -> np.ndarray:
    """Activations as accuracy level 4 sees them: blocks of 32 with 127 steps to either side."""
    rows, length = x.shape
    blocks = np.pad(x, ((0, 0), (0, -length % BLOCK))).reshape(rows, -1, BLOCK)
    largest = np.abs(blocks).max(axis=2, keepdims=True)
    steps = np.rint(blocks * np.where(largest > 0, np.float32(127) / np.where(largest > 0, largest, 1), 0))
    return np.asarray((steps.astype(np.float64) * (largest / np.float32(127))).reshape(rows, -1)[:, :length])


@pytest.mark.parametrize(("length", "columns"), SIZES)
def test_a_product_is_that_of_the_dequantized_matrix_with_rounded_activations(
    tmp_path: Path, length: int, columns: int
) -> None:
    rng = np.random.default_rng(length)
    weight, x = random(rng, length, columns), random(rng, 5, length)
    weight /= np.float32(length**0.5)
    expected = rounded(x) @ dequantized(*quantize(weight), length)
    (found,) = product_session(tmp_path, weight).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
    assert np.abs(expected - x @ weight).max() > TOLERANCE or length <= BLOCK + 1, "the rounding is larger than that"


@pytest.mark.parametrize(("length", "columns"), SIZES)
def test_every_weight_is_within_half_a_step_of_its_block(length: int, columns: int) -> None:
    weight = random(np.random.default_rng(1), length, columns)
    packed, scales = quantize(weight)
    blocks = np.pad(weight, ((0, -length % BLOCK), (0, 0))).reshape(-1, BLOCK, columns)
    np.testing.assert_allclose(scales.T, np.abs(blocks).max(axis=1) / 127, rtol=1e-6)
    error = np.abs(dequantized(packed, scales, length) - weight)
    assert (error <= 0.5001 * np.repeat(scales.T, BLOCK, axis=0)[:length]).all()
    assert packed.min() >= 1
    assert (packed.reshape(columns, -1)[:, length:] == ZERO_POINT).all(), "padding is zero"


def test_a_block_of_zeros_stays_zero(tmp_path: Path) -> None:
    weight = random(np.random.default_rng(2), 96, 8)
    weight[32:64] = 0
    packed, scales = quantize(weight)
    assert (packed[:, 1] == ZERO_POINT).all()
    assert (scales[:, 1] == 0).all()
    (found,) = product_session(tmp_path, weight).run(None, {"x": np.eye(96, dtype=np.float32)[32:64]})
    assert (found == 0).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("length", "columns"), SIZES)
def test_a_row_has_the_same_bits_in_every_pass(tmp_path: Path, length: int, columns: int, threads: int) -> None:
    rng = np.random.default_rng(3)
    weight, x = random(rng, length, columns), random(rng, 40, length)
    session = product_session(tmp_path, weight, threads)
    alone = np.concatenate([session.run(None, {"x": x[row : row + 1]})[0] for row in range(40)])
    for rows in (2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 40):
        parts = [session.run(None, {"x": x[start : start + rows]})[0] for start in range(0, 40, rows)]
        assert np.array_equal(np.concatenate(parts), alone), f"{rows} rows"


def test_an_expert_without_rows_gives_none(tmp_path: Path) -> None:
    weight = random(np.random.default_rng(4), 64, 48)
    (found,) = product_session(tmp_path, weight).run(None, {"x": np.empty((0, 64), np.float32)})
    assert found.shape == (0, 48)


@pytest.mark.parametrize("name", DECODERS)
def test_a_whole_decoder_keeps_its_inputs_and_comes_close_to_fp32(exported: Open, name: str, tmp_path: Path) -> None:
    found = exported(name)
    source = onnx.load(found.path, load_external_data=False)
    before = source.SerializeToString()
    done = write_int8(source, found.path.parent, tmp_path / "llm.onnx")
    assert source.SerializeToString() == before, "the export stays as it was"
    quantized = onnx.load(tmp_path / "llm.onnx")
    assert list(quantized.graph.input) == list(source.graph.input)
    assert list(quantized.graph.output) == list(source.graph.output)
    feeds, main = feeds_of(found), "hidden_states" if "thinker" not in name else "logits"
    exact, close = run(found.model, feeds)[main].ravel(), run(quantized, feeds)[main].ravel()
    cosine = exact @ close / np.linalg.norm(exact) / np.linalg.norm(close)
    # another expert of nearly equal probability gives another row
    assert (0.95 if "omni talker" in name else 0.99) < cosine < 1 - 1e-6
    assert done.parameters > 0.5 * sum(np.prod(tensor.dims) for tensor in source.graph.initializer)


def test_routers_of_experts_stay_fp32(exported: Open, tmp_path: Path) -> None:
    found = exported("omni talker")
    source = onnx.load(found.path, load_external_data=False)
    done = write_int8(source, found.path.parent, tmp_path / "llm.onnx")
    nodes = onnx.load(tmp_path / "llm.onnx", load_external_data=False).graph.node
    weights = {tensor.name for tensor in source.graph.initializer}
    constant = [node.input[1] for node in nodes if node.op_type == "MatMul" and node.input[1] in weights]
    assert len(constant) == done.kept > 0
    assert all(name.endswith((".mlp.gate.weight", ".mlp.shared_expert_gate.weight")) for name in constant)
