"""The mixture of experts: right against a dense float64 evaluation, its ties defined, its rows independent."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.engine_config import DecoderDimensions, MoeDimensions
from cpspec_trt.files.tensors import TensorSet
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights
from cpspec_trt.graphs.moe import choose_experts, expert_mlp
from tests.graphs import decoder_oracle
from tests.graphs.decoder_runs import assert_same_bits, random_experts, saved, session
from tests.graphs.real_layer import weight_bytes

AT = "layer.mlp"
TINY = MoeDimensions(
    num_experts=8, num_experts_per_tok=3, moe_intermediate_size=24, norm_topk_prob=True,
    shared_expert_intermediate_size=40, dense_layers=(),
)  # fmt: skip
# The shape of the published Thinker's layer (128 experts, 8 of them chosen, inner width 3/8), an eighth as wide.
WIDE = replace(
    TINY, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=96, shared_expert_intermediate_size=0
)
TINY_HIDDEN, WIDE_HIDDEN = 32, 256
CUTS = ([1] * 16, [2, 1, 5, 2, 6], [3, 13])


def dimensions(hidden: int) -> DecoderDimensions:
    return DecoderDimensions(1, hidden, 8, 2, 1, 8, 8, 64, 1e-6, 1e4)


def author_layer(moe: MoeDimensions, tensors: TensorSet, hidden: int) -> GraphAuthor:
    author = GraphAuthor("layer")
    x = author.input("x", ["batch", "new", hidden])
    y = expert_mlp(moe)(CheckpointWeights(author, tensors), dimensions(hidden), AT, x)
    author.output("y", y, ["batch", "new", hidden])
    return author


def author_router(moe: MoeDimensions, tensors: TensorSet, hidden: int) -> GraphAuthor:
    author = GraphAuthor("router")
    x = author.input("x", ["rows", hidden])
    chosen, shares = choose_experts(CheckpointWeights(author, tensors), moe, f"{AT}.gate", x, hidden)
    author.output("chosen", chosen, ["rows", moe.num_experts_per_tok], np.int64)
    author.output("shares", shares, ["rows", moe.num_experts_per_tok])
    return author


class Layer:
    """One layer with random weights, on disk."""

    def __init__(self, moe: MoeDimensions, hidden: int, directory: Path, **changes: np.ndarray) -> None:
        rng = np.random.default_rng(hidden + moe.num_experts_per_tok)
        self.moe, self.hidden, self.directory = moe, hidden, directory
        self.weights = random_experts(AT, hidden, moe, rng) | {f"{AT}.{key}": value for key, value in changes.items()}
        self.tensors = saved(self.weights, directory)
        self.rows = rng.standard_normal((1, 16, hidden), np.float32)

    def open(self, threads: int = 1) -> ort.InferenceSession:
        return session(author_layer(self.moe, self.tensors, self.hidden), self.directory, threads)

    def run(self, rows: np.ndarray) -> np.ndarray:
        """[batch, new, hidden] -> the same."""
        found: np.ndarray = self.open().run(None, {"x": np.ascontiguousarray(rows)})[0]
        return found

    def choose(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[rows, hidden] -> chosen experts and their shares."""
        directory = self.directory / "router"
        directory.mkdir(exist_ok=True)
        opened = session(author_router(self.moe, self.tensors, self.hidden), directory)
        chosen, shares = opened.run(None, {"x": np.ascontiguousarray(rows)})
        return chosen, shares

    def expected(self, rows: np.ndarray) -> np.ndarray:
        w = {name: array.astype(np.float64) for name, array in self.weights.items()}
        return decoder_oracle.expert_mlp(self.moe)(w, AT, rows.astype(np.float64))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Layer:
    return Layer(TINY, TINY_HIDDEN, tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Layer:
    return Layer(WIDE, WIDE_HIDDEN, tmp_path_factory.mktemp("wide"))


def gate(**rows: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{name}.weight": value for name, value in rows.items()}


@pytest.mark.parametrize("shared", [0, 40])
@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("chosen", [1, 2, 3, 8])
def test_the_output_equals_a_dense_float64_evaluation(
    tmp_path: Path, chosen: int, normalised: bool, shared: int
) -> None:
    moe = replace(TINY, num_experts_per_tok=chosen, norm_topk_prob=normalised, shared_expert_intermediate_size=shared)
    layer = Layer(moe, TINY_HIDDEN, tmp_path)
    rows = layer.rows.reshape(2, 8, -1)
    found = layer.run(rows)
    for batch in range(2):
        np.testing.assert_allclose(found[batch], layer.expected(rows[batch]), atol=2e-5, rtol=0)


def test_one_expert_for_everything_is_a_gated_mlp(tmp_path: Path) -> None:
    layer = Layer(replace(TINY, num_experts=1, num_experts_per_tok=1), TINY_HIDDEN, tmp_path)
    found = layer.run(layer.rows)
    np.testing.assert_allclose(found[0], layer.expected(layer.rows[0]), atol=2e-5, rtol=0)


def test_a_layer_of_128_experts_equals_a_dense_float64_evaluation(wide: Layer) -> None:
    np.testing.assert_allclose(wide.run(wide.rows)[0], wide.expected(wide.rows[0]), atol=2e-5, rtol=0)
    chosen, _ = wide.choose(wide.rows[0])
    assert 40 < len(np.unique(chosen)) < 128  # many experts have rows, many have none


def test_the_chosen_experts_and_their_shares_are_those_of_float64(wide: Layer) -> None:
    rows = np.random.default_rng(9).standard_normal((500, WIDE_HIDDEN), np.float32)
    chosen, shares = wide.choose(rows)
    w = {name: array.astype(np.float64) for name, array in wide.weights.items() if "gate.weight" in name}
    expected, all_shares = decoder_oracle.routing(w, AT, WIDE, rows.astype(np.float64))
    np.testing.assert_array_equal(chosen, expected)
    np.testing.assert_allclose(shares, np.take_along_axis(all_shares, expected, axis=-1), atol=1e-6, rtol=0)
    assert (np.diff(shares, axis=-1) <= 0).all()
    np.testing.assert_allclose(shares.sum(axis=-1), 1, atol=1e-6)


def test_of_equal_experts_the_lower_index_is_chosen_first(tmp_path: Path) -> None:
    layer = Layer(TINY, TINY_HIDDEN, tmp_path, **gate(gate=np.zeros((8, TINY_HIDDEN), np.float32)))
    chosen, shares = layer.choose(layer.rows[0])
    np.testing.assert_array_equal(chosen, np.tile([0, 1, 2], (16, 1)))
    np.testing.assert_allclose(shares, 1 / 3, rtol=1e-6)


def test_experts_that_tie_for_the_last_place_are_taken_by_index(tmp_path: Path) -> None:
    router = np.random.default_rng(4).standard_normal((8, TINY_HIDDEN), np.float32)
    router[[1, 4, 6]] = router[2]  # always equal to expert 2
    layer = Layer(TINY, TINY_HIDDEN, tmp_path, **gate(gate=router))
    chosen, _ = layer.choose(np.random.default_rng(5).standard_normal((300, TINY_HIDDEN), np.float32))
    ties = [[expert for expert in row if expert in (1, 2, 4, 6)] for row in chosen.tolist()]
    assert {tuple(found) for found in ties} == {(), (1,), (1, 2), (1, 2, 4)}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cuts", CUTS, ids=str)
@pytest.mark.parametrize("name", ["tiny", "wide"])
def test_rows_are_bit_identical_for_every_way_of_cutting_them_into_passes(
    request: pytest.FixtureRequest, name: str, cuts: list[int], threads: int
) -> None:
    layer: Layer = request.getfixturevalue(name)
    opened = layer.open(threads)
    parts = np.split(layer.rows, np.cumsum(cuts)[:-1], axis=1)
    found = np.concatenate([opened.run(["y"], {"x": np.ascontiguousarray(part)})[0] for part in parts], axis=1)
    assert_same_bits(found, layer.run(layer.rows))


@pytest.mark.parametrize("name", ["tiny", "wide"])
def test_a_row_does_not_depend_on_the_rows_beside_it(request: pytest.FixtureRequest, name: str) -> None:
    layer: Layer = request.getfixturevalue(name)
    expected = layer.run(layer.rows)
    assert_same_bits(layer.run(layer.rows.reshape(4, 4, -1)).reshape(expected.shape), expected)
    order = np.random.default_rng(1).permutation(16)
    assert_same_bits(layer.run(layer.rows[:, order]), expected[:, order])
    others = layer.rows.copy()
    others[:, 1:] = layer.rows[:, [0]]  # every row goes where row 0 goes
    assert_same_bits(layer.run(others), np.repeat(expected[:, :1], 16, axis=1))
    others[:, 1:] = 1e4 * layer.rows[:, 1:]
    assert_same_bits(layer.run(others)[:, :1], expected[:, :1])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_prompt_gives_the_bits_of_single_rows(wide: Layer, threads: int) -> None:
    rows = np.random.default_rng(3).standard_normal((1, 300, WIDE_HIDDEN), np.float32)
    opened = wide.open(threads)
    (whole,) = opened.run(["y"], {"x": rows})
    for row in range(0, 300, 7):
        (alone,) = opened.run(["y"], {"x": np.ascontiguousarray(rows[:, [row]])})
        assert_same_bits(alone, whole[:, [row]])


def products_of_experts(layer: Layer, rows: np.ndarray, scratch: Path) -> list[int]:
    """How many rows each product with a matrix of an expert had in one pass, as ONNX Runtime's profile tells."""
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(scratch / "profile")
    opened = ort.InferenceSession(layer.directory / "model.onnx", options, providers=["CPUExecutionProvider"])
    opened.run(None, {"x": rows})
    hidden, inner = layer.hidden, layer.moe.moe_intermediate_size
    found = []
    for event in json.loads(Path(opened.end_profiling()).read_text()):
        arguments: dict[str, Any] = event.get("args", {})
        if arguments.get("op_name") == "MatMul" and event["name"].endswith("_kernel_time"):
            (count, inputs), (_, outputs) = (
                next(iter(arguments[key][0].values())) for key in ("input_type_shape", "output_type_shape")
            )
            if (inputs, outputs) in ((hidden, 2 * inner), (inner, hidden)):
                found.append(count)
    return found


@pytest.mark.parametrize("count", [1, 16])
def test_only_the_chosen_experts_multiply(wide: Layer, tmp_path: Path, count: int) -> None:
    rows = np.ascontiguousarray(wide.rows[:, :count])
    wide.open()  # the graph is written by now
    found = products_of_experts(wide, rows, tmp_path)
    chosen, _ = wide.choose(rows[0])
    assert len(found) == 2 * 128
    assert sum(found) == 2 * 8 * count  # every row once through each of its eight experts, and nothing else
    assert sum(rows > 0 for rows in found) == 2 * len(np.unique(chosen))


@pytest.mark.parametrize(
    "name", ["gate", "experts.7.gate_proj", "experts.0.down_proj", "shared_expert.up_proj", "shared_expert_gate"]
)
def test_a_missing_matrix_is_named(tmp_path: Path, name: str) -> None:
    weights = random_experts(AT, TINY_HIDDEN, TINY, np.random.default_rng(0))
    del weights[f"{AT}.{name}.weight"]
    with pytest.raises(CheckpointError, match=rf"tensor 'layer\.mlp\.{name}\.weight' is missing"):
        author_layer(TINY, saved(weights, tmp_path), TINY_HIDDEN)


def measured(directory: Path, hidden: int) -> dict[str, float]:
    """What ``real_layer`` measures in a process of its own on a layer of that width."""
    command = [sys.executable, "-m", "tests.graphs.real_layer", str(directory), str(hidden)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


@pytest.mark.parametrize("hidden", [512, pytest.param(2048, marks=pytest.mark.long)])
def test_a_layer_takes_the_memory_of_its_weights_and_at_most_a_fifth_more(tmp_path: Path, hidden: int) -> None:
    found = measured(tmp_path, hidden)
    assert found["weights"] == weight_bytes(hidden)
    assert found["peak"] < 1.2 * found["weights"]
    assert found["peak"] > 0.9 * found["weights"]  # the measurement sees the weights at all
