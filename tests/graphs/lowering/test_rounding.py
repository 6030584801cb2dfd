"""The oracle of this room: it rounds every low value, and only those, as the types say."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graphs.lowering.exports import run
from tests.graphs.lowering.rounding import element_types, evaluate

FP16, BF16, FP32 = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT


def graph(nodes: list[onnx.NodeProto], low: int, weights: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    """x [n] of type ``low`` -> y of type ``low``."""
    inputs = [helper.make_tensor_value_info("x", low, ["n"])]
    outputs = [helper.make_tensor_value_info("y", low, ["n"])]
    dtype = {FP16: np.float16, BF16: ml_dtypes.bfloat16}[low]
    held = [numpy_helper.from_array(array.astype(dtype), name) for name, array in (weights or {}).items()]
    made = helper.make_graph(nodes, "g", inputs, outputs, held)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 24)], ir_version=12)


def squares_times_a_thousandth(low: int) -> onnx.ModelProto:
    nodes = [helper.make_node("Mul", ["x", "x"], ["xx"]), helper.make_node("Mul", ["xx", "w"], ["y"])]
    return graph(nodes, low, {"w": np.array([1e-3], np.float32)})


def test_a_product_beyond_fp16_is_infinite_although_the_result_would_fit() -> None:
    assert np.isinf(evaluate(squares_times_a_thousandth(FP16), {"x": np.array([300.0])})["y"]).all()


def test_the_runtime_for_cpus_cannot_show_that() -> None:
    found = run(squares_times_a_thousandth(FP16), {"x": np.array([200.0])})["y"]
    assert found.dtype == np.float16
    assert abs(float(found[0]) - 40) < 0.1


def test_bf16_reaches_as_far_as_fp32() -> None:
    found = evaluate(squares_times_a_thousandth(BF16), {"x": np.array([300.0])})["y"]
    assert abs(found[0] - 90) < 0.5


@pytest.mark.parametrize(("low", "dtype"), [(FP16, np.float16), (BF16, ml_dtypes.bfloat16)])
def test_every_value_is_rounded_to_nearest_with_ties_to_even(low: int, dtype: type) -> None:
    x = np.concatenate([np.random.default_rng(0).standard_normal(500), 1 + np.arange(64) * 2.0**-13]).astype(np.float32)
    nodes = [helper.make_node("Add", ["x", "x"], ["xx"]), helper.make_node("Mul", ["xx", "w"], ["y"])]
    weight = np.array([0.3], np.float32)
    expected = ((x.astype(dtype) + x.astype(dtype)) * weight.astype(dtype)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(graph(nodes, low, {"w": weight}), {"x": x})["y"], expected)


def test_a_value_that_is_fp32_is_not_rounded() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=FP32),
        helper.make_node("Mul", ["wide", "wide"], ["square"]),
        helper.make_node("Sqrt", ["square"], ["root"]),
        helper.make_node("Cast", ["root"], ["y"], to=FP16),
    ]
    model = graph(nodes, FP16)
    assert element_types(model)["square"] == FP32
    np.testing.assert_array_equal(evaluate(model, {"x": np.array([1000.0])})["y"], [1000.0])
