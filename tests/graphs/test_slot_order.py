"""Attention summed in slot order: the same rows as before, and the same bits in whichever slots the keys lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.graphs.code_predictor import author_code_predictor
from cpspec_trt.graphs.slot_order import sum_in_slot_order
from tests.graphs.decoder_runs import MASKED, Decoder, assert_same_bits
from tests.graphs.test_code_predictor import CUTS, PUBLISHED, TINY, Model

CAPACITY = 80


class Both:
    """The sessions of a CodePredictor as it is exported and as it is rewritten."""

    def __init__(self, dimensions: DecoderDimensions, directory: Path) -> None:
        self.model = Model(dimensions, 64, directory)
        author_code_predictor(self.model.config, self.model.tensors).save(directory / "model.onnx")
        graph = onnx.load(directory / "model.onnx", load_external_data=False)
        self.kinds = [node.op_type for node in graph.graph.node]
        rewritten = sum_in_slot_order(graph)
        assert [node.op_type for node in graph.graph.node] == self.kinds, "the graph that was given has changed"
        assert "Softmax" not in {node.op_type for node in rewritten.graph.node}
        onnx.save(rewritten, directory / "rewritten.onnx")
        onnx.checker.check_model(directory / "rewritten.onnx")
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self.sessions = {
            name: ort.InferenceSession(directory / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
            for name in ("model", "rewritten")
        }

    def open(self, name: str, batch: int = 1, capacity: int = CAPACITY) -> Decoder:
        return Decoder(self.sessions[name], self.model.dimensions, batch, capacity)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(TINY, tmp_path_factory.mktemp("slot_order"))


def _tree_pass(decoder: Decoder, embeds: np.ndarray, depths: Sequence[int], parents: Sequence[int]) -> np.ndarray:
    """Rows of a tree [S, hidden]: a node stands at its depth, lies in its own slot and sees its ancestors."""
    length, nodes = int(decoder.lengths[0]), len(depths)
    visible = np.zeros((nodes, decoder.capacity), bool)
    visible[:, :length] = True
    for node in range(nodes):
        ancestor = node
        while ancestor >= 0:
            visible[node, length + ancestor] = True
            ancestor = parents[ancestor]
    half = decoder.dimensions.head_dim // 2
    angles = (length + np.array(depths))[:, None] * decoder.dimensions.rope_theta ** (-np.arange(half) / half)
    feeds = {
        "inputs_embeds": embeds[None],
        "attention_mask": np.where(visible, 0, MASKED).astype(np.float32)[None],
        "rope_cos": np.cos(angles).astype(np.float32)[None],
        "rope_sin": np.sin(angles).astype(np.float32)[None],
        "write_indices": decoder.lengths.copy(),
        **{f"past_{name}": array for name, array in decoder.cache.items()},
    }
    rows: np.ndarray = decoder.session.run(["hidden_states"], feeds)[0][0]
    return rows


def _different_paths(both: Both, name: str, widths: Sequence[int], trials: int) -> int:
    """How many paths of random trees have another row than the chain of the same rows has, fed one by one."""
    rng = np.random.default_rng(sum(widths))
    depths, parents, level = [0], [-1], [0]
    for depth, width in enumerate(widths, start=1):
        grown = [parent for parent in level for _ in range(width)]
        level = list(range(len(parents), len(parents) + len(grown)))
        parents += grown
        depths += [depth] * len(grown)
    different = 0
    for _ in range(trials):
        prefix = rng.standard_normal((1, int(rng.integers(2, 9)), 64), np.float32)
        embeds = rng.standard_normal((len(depths), 64), np.float32)
        tree = both.open(name)
        tree.run(prefix)
        for array in tree.cache.values():
            beyond = array[:, :, prefix.shape[1] :]
            beyond[:] = rng.choice([-1e6, 1e6], size=beyond.shape)
        rows = _tree_pass(tree, embeds, depths, parents)
        for leaf in level:
            path = [leaf]
            while parents[path[0]] >= 0:
                path.insert(0, parents[path[0]])
            chain = both.open(name, capacity=24)
            chain.run(prefix)
            alone = [chain.run(embeds[None, node : node + 1])["hidden_states"][0, 0] for node in path]
            different += not np.array_equal(np.array(alone), rows[path])
    return different


@pytest.mark.parametrize("widths", [(2,), (2, 2, 2, 2), (4, 4), (4, 2)], ids=str)
def test_rows_of_a_tree_have_the_bits_of_the_chains_in_it(tiny: Both, widths: tuple[int, ...]) -> None:
    assert _different_paths(tiny, "rewritten", widths, 3) == 0


def test_without_the_rewrite_they_have_not(tiny: Both) -> None:
    assert _different_paths(tiny, "model", (2, 2, 2), 3) > 0


def test_rows_of_a_tree_at_the_published_size_have_the_bits_of_the_chains_in_it(tmp_path: Path) -> None:
    assert _different_paths(Both(replace(PUBLISHED, num_hidden_layers=2), tmp_path), "rewritten", (4, 2), 1) == 0


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_rows_are_those_of_the_exported_graph_and_do_not_depend_on_the_cut(tiny: Both, cuts: list[int]) -> None:
    embeds = tiny.model.embeds[:1]
    found = tiny.open("rewritten").hidden_rows(embeds, cuts)
    assert_same_bits(found, tiny.open("rewritten", capacity=24).hidden_rows(embeds, CUTS[0]))
    np.testing.assert_allclose(found, tiny.open("model").hidden_rows(embeds, cuts), atol=2e-6, rtol=0)
    np.testing.assert_allclose(found[0], tiny.model.expected(0), atol=2e-5, rtol=0)


def test_a_graph_whose_softmax_weighs_no_values_is_refused() -> None:
    node = helper.make_node("Softmax", ["past_value_0"], ["y"], name="alone")
    value = helper.make_tensor_value_info("past_value_0", onnx.TensorProto.FLOAT, ["batch", 2, "capacity", 16])
    graph = helper.make_graph([node], "graph", [value], [])
    with pytest.raises(EngineError, match="softmax 'alone' weighs no values"):
        sum_in_slot_order(helper.make_model(graph))
