"""Experts in tiles: the exported experts, and only what was chosen is moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from cpspec_trt.graphs.lowering.experts import TILE, tile_experts
from cpspec_trt.graphs.lowering.weights import convert_in_memory
from tests.graphs.lowering.exports import session
from tests.graphs.test_moe import TINY, TINY_HIDDEN, WIDE, WIDE_HIDDEN, Layer, author_layer, gate

EXACT = 2e-5  # against float64, as the exported layer is held to


def tiled(layer: Layer) -> onnx.ModelProto:
    """The lowered layer, holding its weights."""
    path: Path = layer.directory / "model.onnx"
    if not path.exists():
        author_layer(layer.moe, layer.tensors, layer.hidden).save(path)
    source = onnx.load(path)
    found = tile_experts(source)
    model, _ = convert_in_memory(found.model, {}, found.parts, source)
    onnx.checker.check_model(model, full_check=True)
    return model


def open_with_tiles(layer: Layer) -> ort.InferenceSession:
    """As a session that also tells the expert of every tile, as ``tiles``."""
    model = tiled(layer)
    gathers = [node for node in model.graph.node if node.op_type == "Gather" and node.input[0].endswith("/gate_up")]
    assert len(gathers) == 1
    model.graph.node.append(helper.make_node("Identity", [gathers[0].input[1]], ["tiles"]))
    model.graph.output.append(helper.make_tensor_value_info("tiles", TensorProto.INT64, ["tiles"]))
    return session(model)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Layer:
    """128 experts of which eight are chosen."""
    return Layer(WIDE, WIDE_HIDDEN, tmp_path_factory.mktemp("wide"))


@pytest.mark.parametrize("shared", [0, 40])
@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("chosen", [1, 3, 8])
def test_the_output_equals_a_dense_float64_evaluation(
    tmp_path: Path, chosen: int, normalised: bool, shared: int
) -> None:
    moe = replace(TINY, num_experts_per_tok=chosen, norm_topk_prob=normalised, shared_expert_intermediate_size=shared)
    layer = Layer(moe, TINY_HIDDEN, tmp_path)
    rows = layer.rows.reshape(2, 8, -1)
    (found,) = session(tiled(layer)).run(["y"], {"x": rows})
    for batch in range(2):
        np.testing.assert_allclose(found[batch], layer.expected(rows[batch]), atol=EXACT, rtol=0)


def test_a_single_expert_serves_every_row(tmp_path: Path) -> None:
    layer = Layer(replace(TINY, num_experts=1, num_experts_per_tok=1), TINY_HIDDEN, tmp_path)
    (found,) = session(tiled(layer)).run(["y"], {"x": layer.rows})
    np.testing.assert_allclose(found[0], layer.expected(layer.rows[0]), atol=EXACT, rtol=0)


@pytest.mark.parametrize("count", [1, 2, 16, 300])
def test_any_number_of_rows_equals_a_dense_float64_evaluation(wide: Layer, count: int) -> None:
    rows = np.random.default_rng(count).standard_normal((1, count, WIDE_HIDDEN), np.float32)
    (found,) = session(tiled(wide)).run(["y"], {"x": rows})
    np.testing.assert_allclose(found[0, ::11], wide.expected(rows[0, ::11]), atol=EXACT, rtol=0)


@pytest.mark.parametrize("count", [3 * TILE, 3 * TILE + 1])
def test_rows_that_all_choose_the_same_experts_fill_several_tiles(tmp_path: Path, count: int) -> None:
    layer = Layer(TINY, TINY_HIDDEN, tmp_path, **gate(gate=np.zeros((8, TINY_HIDDEN), np.float32)))
    rows = np.random.default_rng(6).standard_normal((1, count, TINY_HIDDEN), np.float32)
    found, tiles = open_with_tiles(layer).run(["y", "tiles"], {"x": rows})
    np.testing.assert_allclose(found[0], layer.expected(rows[0]), atol=EXACT, rtol=0)
    each = -(-count // TILE)
    assert tiles.tolist()[: 3 * each] == [expert for expert in (0, 1, 2) for _ in range(each)]


@pytest.mark.parametrize("count", [1, 2, 16])
def test_a_step_moves_the_chosen_experts_and_at_most_one_other(wide: Layer, count: int) -> None:
    rows = np.ascontiguousarray(wide.rows[:, :count])
    (tiles,) = open_with_tiles(wide).run(["tiles"], {"x": rows})
    chosen, _ = wide.choose(rows[0])
    moved, used = tiles.tolist(), np.unique(chosen).tolist()
    assert len(moved) == 8 * count
    assert moved[: len(used)] == used
    assert set(moved[len(used) :]) <= {127}  # tiles that stay empty all name the last expert
    if count == 1:
        assert moved == used


def test_a_long_prompt_moves_each_expert_once_and_once_more_per_tile_of_rows(wide: Layer) -> None:
    count = 1000
    rows = np.random.default_rng(8).standard_normal((1, count, WIDE_HIDDEN), np.float32)
    (tiles,) = open_with_tiles(wide).run(["tiles"], {"x": rows})
    assert len(tiles) == 8 * count // TILE + 128


def test_the_experts_stand_one_upon_the_other_in_two_weights(tmp_path: Path) -> None:
    layer = Layer(TINY, TINY_HIDDEN, tmp_path)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in tiled(layer).graph.initializer}
    assert weights["experts_0/gate_up"].shape == (8, TINY_HIDDEN, 2 * TINY.moe_intermediate_size)
    assert not [name for name in weights if ".experts." in name]
    for expert in range(8):
        down = layer.weights[f"layer.mlp.experts.{expert}.down_proj.weight"]
        np.testing.assert_array_equal(weights["experts_0/down"][expert], down.T)


def test_a_row_does_not_depend_on_the_rows_beside_it(wide: Layer) -> None:
    opened = session(tiled(wide))
    (together,) = opened.run(["y"], {"x": wide.rows})
    others = wide.rows.copy()
    others[:, 1:] *= 1e4
    (beside,) = opened.run(["y"], {"x": others})
    np.testing.assert_allclose(beside[:, 0], together[:, 0], atol=EXACT, rtol=0)
