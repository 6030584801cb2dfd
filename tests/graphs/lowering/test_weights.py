"""Weights that change their type: rounding, range, counts, and files of any size."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.graphs.authoring import DATA_ALIGNMENT, GraphAuthor, Weight
from cpspec_trt.graphs.lowering.lowered import lower, lower_file
from cpspec_trt.graphs.lowering.weights import Rounded, convert_in_memory
from tests.graphs.lowering.conftest import Open
from tests.graphs.lowering.exports import GRAPHS

FP16, BF16 = TensorProto.FLOAT16, TensorProto.BFLOAT16


def one_weight(values: np.ndarray) -> onnx.ModelProto:
    tensor = numpy_helper.from_array(np.asarray(values, np.float32), "w")
    return onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [tensor]))


def converted(values: np.ndarray, element_type: int) -> tuple[np.ndarray, Rounded]:
    source = one_weight(values)
    model, counts = convert_in_memory(source, {"w": element_type}, {}, source)
    assert model.graph.initializer[0].data_type == element_type
    return numpy_helper.to_array(model.graph.initializer[0]), counts


def arrays(model: onnx.ModelProto, directory: Path) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t, str(directory)) for t in model.graph.initializer}


def save(directory: Path, values: np.ndarray) -> Path:
    """A CodePredictor in name only: one product with a weight that lies outside."""
    author = GraphAuthor("small")
    x = author.input("inputs_embeds", ["batch", values.shape[0]])
    y = author.op("MatMul", x, author.weight(Weight("w", values.shape, lambda: values)))
    author.output("hidden_states", y, ["batch", values.shape[1]])
    author.save(directory / "model.onnx")
    return directory / "model.onnx"


@pytest.mark.parametrize(("element_type", "dtype"), [(FP16, np.float16), (BF16, ml_dtypes.bfloat16)])
def test_values_are_rounded_to_nearest(element_type: int, dtype: type) -> None:
    values = np.random.default_rng(2).standard_normal(5000).astype(np.float32)
    found, counts = converted(values, element_type)
    np.testing.assert_array_equal(found, values.astype(dtype))
    assert counts == Rounded(5000, 0)


@pytest.mark.parametrize("worst", [65520.0, -70000.0, 3e38])
def test_a_weight_beyond_the_range_of_fp16_is_named(worst: float) -> None:
    with pytest.raises(EngineError, match=r"'w' holds .*, beyond the range of fp16; build with --precision bf16"):
        converted(np.array([1.0, worst, 65519.0]), FP16)


def test_the_largest_values_of_each_range_are_kept() -> None:
    assert converted(np.array([65519.0]), FP16)[0] == 65504
    assert np.isfinite(converted(np.array([3.38e38]), BF16)[0].astype(np.float32))
    with pytest.raises(EngineError, match="beyond the range of bf16; build with --precision fp32"):
        converted(np.array([3.4e38]), BF16)


def test_values_that_become_zero_are_counted_and_zeros_are_not() -> None:
    values = np.array([0.0, 1e-8, -1e-9, 6e-8, 1.0])
    assert converted(values, FP16)[1] == Rounded(5, 2)
    assert converted(values, BF16)[1] == Rounded(5, 0)


def test_a_weight_outside_the_graph_must_be_lowered_from_file_to_file(tmp_path: Path) -> None:
    path = save(tmp_path, np.ones((3, 4), np.float32))
    with pytest.raises(UsageError, match=r"'w' lies outside the graph; lower the file"):
        lower(onnx.load(path, load_external_data=False), "code_predictor", "fp16", "tensorrt-rtx")


@pytest.mark.parametrize("elements", [1, 7, 1000])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("name", [name for name in GRAPHS if name.startswith("omni")])
def test_a_file_holds_the_weights_that_lowering_in_memory_gives(
    exported: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, precision: str, elements: int
) -> None:
    monkeypatch.setattr("cpspec_trt.graphs.lowering.weights._BLOCK_ELEMENTS", elements * 1000)
    found = exported(name)
    expected = lower(found.path, found.component, precision, "tensorrt-rtx")  # type: ignore[arg-type]
    target = tmp_path / "new" / "lowered.onnx"
    lower_file(found.path, target, found.component, precision, "tensorrt-rtx")  # type: ignore[arg-type]
    assert sorted(path.name for path in target.parent.iterdir()) == ["lowered.onnx", "lowered.onnx.data"]
    written = onnx.load(target, load_external_data=False)
    assert list(written.graph.node) == list(expected.graph.node)
    assert list(written.graph.input) == list(expected.graph.input)
    assert list(written.graph.output) == list(expected.graph.output)
    in_memory, on_disk = arrays(expected, tmp_path), arrays(written, target.parent)
    assert on_disk.keys() == in_memory.keys()
    for weight, array in in_memory.items():
        assert on_disk[weight].dtype == array.dtype, weight
        np.testing.assert_array_equal(on_disk[weight], array, err_msg=weight)
    for tensor in written.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            fields = {entry.key: entry.value for entry in tensor.external_data}
            assert fields["location"] == "lowered.onnx.data"
            assert int(fields["offset"]) % DATA_ALIGNMENT == 0


def test_a_file_reports_what_was_rounded(tmp_path: Path) -> None:
    values = np.array([[1.0, 1e-9], [0.0, 2.0]], np.float32)
    path = save(tmp_path, values)
    assert lower_file(path, tmp_path / "low.onnx", "code_predictor", "fp16", "tensorrt-rtx") == Rounded(4, 1)
    assert lower_file(path, tmp_path / "same.onnx", "code_predictor", "fp32", "tensorrt-rtx") == Rounded(0, 0)


def test_a_weight_out_of_range_leaves_the_files_that_were_there(tmp_path: Path) -> None:
    path = save(tmp_path, np.full((2, 2), 1e6, np.float32))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(EngineError, match="'w' holds 1e\\+06, beyond the range of fp16"):
        lower_file(path, tmp_path / "low.onnx", "code_predictor", "fp16", "tensorrt-rtx")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_truncated_file_of_weights_is_named(tmp_path: Path) -> None:
    path = save(tmp_path, np.ones((30, 40), np.float32))
    data = tmp_path / "model.onnx.data"
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(EngineError, match=r"model\.onnx\.data: is truncated; export again"):
        lower_file(path, tmp_path / "low.onnx", "code_predictor", "fp16", "tensorrt-rtx")
