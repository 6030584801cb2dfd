"""The graph author: names, constants, external data, atomic saving."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from cpspec_trt.errors import CheckpointError
from cpspec_trt.graphs.authoring import DATA_ALIGNMENT, GraphAuthor, Weight

MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
OFFSET = np.array([0.5, 1.5, -2.0, 8.0], np.float32)


def affine(load_matrix: object = None) -> GraphAuthor:
    author = GraphAuthor("affine")
    x = author.input("x", ["batch", 3])
    matrix = author.weight(Weight("matrix", (3, 4), load_matrix or (lambda: MATRIX)))  # type: ignore[arg-type]
    product = author.op("MatMul", x, matrix)
    author.output("y", author.op("Add", product, author.weight(Weight("offset", (4,), lambda: OFFSET))), ["batch", 4])
    return author


def test_a_saved_graph_computes_what_was_authored(tmp_path: Path) -> None:
    affine().save(tmp_path / "model.onnx")
    x = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
    (y,) = ort.InferenceSession(str(tmp_path / "model.onnx")).run(["y"], {"x": x})
    np.testing.assert_allclose(y, x @ MATRIX + OFFSET, rtol=1e-6)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]


def test_weights_are_external_and_start_on_page_boundaries(tmp_path: Path) -> None:
    affine().save(tmp_path / "model.onnx")
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    for tensor in graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        assert entries["location"] == "model.onnx.data"
        assert int(entries["offset"]) % DATA_ALIGNMENT == 0
    loaded = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "model.onnx").graph.initializer}
    np.testing.assert_array_equal(loaded["matrix"], MATRIX)
    np.testing.assert_array_equal(loaded["offset"], OFFSET)


def test_a_transposed_view_is_written_in_its_own_order(tmp_path: Path) -> None:
    affine(lambda: np.ascontiguousarray(MATRIX.T).T).save(tmp_path / "model.onnx")
    loaded = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "model.onnx").graph.initializer}
    np.testing.assert_array_equal(loaded["matrix"], MATRIX)


@pytest.mark.parametrize("elements", [1, 5, 12, 1000])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2), (12, 1)])
def test_an_array_in_any_order_is_written_in_blocks_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elements: int, shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr("cpspec_trt.graphs.authoring._BLOCK_ELEMENTS", elements)
    backwards = np.arange(12, dtype=np.float32).reshape(shape[::-1]).T
    author = GraphAuthor("blocks")
    author.output("y", author.op("Identity", author.weight(Weight("w", shape, lambda: backwards))), list(shape))
    author.save(tmp_path / "model.onnx")
    (loaded,) = (numpy_helper.to_array(t) for t in onnx.load(tmp_path / "model.onnx").graph.initializer)
    np.testing.assert_array_equal(loaded, backwards)


def test_weights_are_loaded_once_each_and_only_when_saving(tmp_path: Path) -> None:
    loads: list[str] = []

    def load() -> np.ndarray:
        loads.append("matrix")
        return MATRIX

    author = affine(load)
    assert loads == []
    author.save(tmp_path / "model.onnx")
    assert loads == ["matrix"]


def test_one_value_may_be_several_outputs_and_an_input_may_be_an_output(tmp_path: Path) -> None:
    author = GraphAuthor("copies")
    x = author.input("x", ["batch"])
    doubled = author.op("Add", x, x)
    for name, value in (("first", doubled), ("second", doubled), ("same", x)):
        author.output(name, value, ["batch"])
    author.save(tmp_path / "model.onnx")
    results = ort.InferenceSession(str(tmp_path / "model.onnx")).run(
        ["first", "second", "same"], {"x": np.ones(2, np.float32)}
    )
    np.testing.assert_array_equal(results, [[2, 2], [2, 2], [1, 1]])


def test_python_numbers_become_int64_or_float32_constants_stored_once(tmp_path: Path) -> None:
    author = GraphAuthor("constants")
    x = author.input("x", ["batch", 6])
    assert author.constant([0, -1, 2]) == author.constant([0, -1, 2])
    assert author.constant(2.0) != author.constant(2)
    shaped = author.op("Reshape", author.op("Mul", x, author.constant(2.0)), author.constant([0, -1, 2]))
    author.output("y", shaped, ["batch", 3, 2])
    author.save(tmp_path / "model.onnx")
    types = {t.data_type for t in onnx.load(tmp_path / "model.onnx").graph.initializer}
    assert types == {onnx.TensorProto.FLOAT, onnx.TensorProto.INT64}


def test_a_weight_of_another_shape_than_declared_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'matrix' was declared float32 \[3, 4\] and loaded as float32 \[4, 3\]"):
        affine(lambda: np.ascontiguousarray(MATRIX.T)).save(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_loading_a_weight_keeps_the_previous_files(tmp_path: Path) -> None:
    affine().save(tmp_path / "model.onnx")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def missing() -> np.ndarray:
        raise CheckpointError("model.safetensors: tensor 'matrix' is missing")

    with pytest.raises(CheckpointError, match="'matrix' is missing"):
        affine(missing).save(tmp_path / "model.onnx")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_graph_that_breaks_onnx_is_refused(tmp_path: Path) -> None:
    author = GraphAuthor("broken")
    author.output("y", author.op("Relu", "nowhere"), ["batch"])
    with pytest.raises(onnx.checker.ValidationError, match="nowhere"):
        author.save(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_name_used_twice_is_refused() -> None:
    author = GraphAuthor("twice")
    author.input("x", ["batch"])
    with pytest.raises(ValueError, match="'x' is already taken"):
        author.input("x", ["batch"])
    author.weight(Weight("w", (3, 4), lambda: MATRIX))
    with pytest.raises(ValueError, match="two different weights are called 'w'"):
        author.weight(Weight("w", (4, 3), lambda: MATRIX))
