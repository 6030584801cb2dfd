"""fp16 and bf16 against the exported fp32 graph, with every value truly rounded."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cpspec_trt.errors import UnsupportedError
from cpspec_trt.graphs.lowering.lowered import BACKENDS, lower
from cpspec_trt.graphs.lowering.precision import Precision
from tests.graphs.lowering.conftest import Open
from tests.graphs.lowering.exports import GRAPHS, Arrays, feeds_of, run
from tests.graphs.lowering.rounding import element_types, evaluate

FP32, FP16 = TensorProto.FLOAT, TensorProto.FLOAT16
LOW: dict[Precision, int] = {"fp16": FP16, "bf16": TensorProto.BFLOAT16}
#: Eight roundings of the largest value of a tensor: fp16 has 11 significant bits, bf16 has 8.
TOLERANCE: dict[Precision, float] = {"fp16": 8 * 2.0**-11, "bf16": 8 * 2.0**-8}


def worst(found: Arrays, expected: Arrays) -> dict[str, float]:
    """Per output: the largest error, in units of the largest value."""
    assert found.keys() == expected.keys()
    return {
        name: float(np.abs(found[name].astype(np.float32) - array).max() / np.abs(array).max())
        for name, array in expected.items()
    }


def assert_close(found: Arrays, expected: Arrays, tolerance: float) -> None:
    errors = worst(found, expected)
    assert all(error <= tolerance for error in errors.values()), errors  # also false for NaN


@pytest.mark.parametrize("precision", LOW)
@pytest.mark.parametrize("backend", ["onnxruntime", "tensorrt-rtx"])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_component_stays_within_eight_roundings_of_fp32(
    exported: Open, name: str, backend: str, precision: Precision
) -> None:
    found = exported(name)
    feeds = feeds_of(found)
    lowered = lower(found.model, found.component, precision, backend)
    onnx.checker.check_model(lowered, full_check=True)
    assert_close(evaluate(lowered, feeds), run(found.model, feeds), TOLERANCE[precision])


@pytest.mark.parametrize("backend", ["onnxruntime", "tensorrt-rtx"])
@pytest.mark.parametrize("name", GRAPHS)
def test_onnx_runtime_runs_every_component_in_fp16(exported: Open, name: str, backend: str) -> None:
    found = exported(name)
    feeds = feeds_of(found)
    lowered = lower(found.model, found.component, "fp16", backend)
    assert_close(run(lowered, feeds), run(found.model, feeds), TOLERANCE["fp16"])


@pytest.mark.parametrize("precision", LOW)
@pytest.mark.parametrize("name", GRAPHS)
def test_inputs_and_outputs_keep_their_names_and_have_the_stated_types(
    exported: Open, name: str, precision: Precision
) -> None:
    found = exported(name)
    lowered = lower(found.model, found.component, precision, "tensorrt-rtx")
    for before, after in (
        (found.model.graph.input, lowered.graph.input),
        (found.model.graph.output, lowered.graph.output),
    ):
        assert [value.name for value in after] == [value.name for value in before]
    wide = {"attention_mask", "rope_cos", "rope_sin", "logits", "accept_hidden", "waveform"}
    # of the transformer of code2wav, of the frame counter, and of the last convolution of both tiny decoders
    states = ["state_pre_conv", "state_key_0", "state_value_0", "state_key_1", "state_value_1", "state_frames"]
    wide |= {f"{prefix}{state}" for prefix in ("", "next_") for state in (*states, "state_decoder_4")}
    if found.component == "talker":
        wide.add("inputs_embeds")  # sums of embeddings, taken in fp32
    integers = {"write_indices", "last_row", "codes"}
    for value in (*lowered.graph.input, *lowered.graph.output):
        expected = TensorProto.INT64 if value.name in integers else FP32 if value.name in wide else LOW[precision]
        assert value.type.tensor_type.elem_type == expected, value.name


@pytest.mark.parametrize("backend", BACKENDS)
def test_fp32_leaves_the_code_predictor_as_it_was_exported(exported: Open, backend: str) -> None:
    found = exported("tts code_predictor")
    assert lower(found.model, found.component, "fp32", backend) == found.model


def test_lowering_does_not_change_the_graph_it_is_given(exported: Open) -> None:
    found = exported("omni talker")
    before = found.model.SerializeToString(deterministic=True)
    lower(found.model, found.component, "fp16", "tensorrt-rtx")
    assert found.model.SerializeToString(deterministic=True) == before


def test_a_cache_is_written_in_place(exported: Open) -> None:
    """What TensorScatter gives is the output itself: a cast between them would be a copy of the whole cache."""
    found = exported("tts talker")
    graph = lower(found.model, found.component, "fp16", "tensorrt-rtx").graph
    outputs = {value.name for value in graph.output if value.name.startswith("present_")}
    scatters = [node for node in graph.node if node.op_type == "TensorScatter"]
    assert {node.output[0] for node in scatters} == outputs
    assert {node.input[0] for node in scatters} == {name.replace("present", "past") for name in outputs}


def test_frames_are_counted_in_fp32_and_what_is_absent_is_masked_in_the_low_type(exported: Open) -> None:
    found = exported("omni code2wav")
    types = element_types(found.model)
    targets: dict[int, set[int]] = {TensorProto.INT64: set(), TensorProto.BOOL: set()}
    for node in lower(found.model, "code2wav", "bf16", "tensorrt-rtx").graph.node:
        source = types.get(node.input[0])
        if node.op_type == "Cast" and source in targets:
            targets[source].add(node.attribute[0].i)
    assert targets == {TensorProto.INT64: {FP32}, TensorProto.BOOL: {TensorProto.BFLOAT16}}


def test_an_operator_without_a_rule_is_refused_by_name(exported: Open) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(exported("tts code_predictor").model)
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(helper.make_node("Erf", ["before"], ["hidden_states"], name="odd"))
    with pytest.raises(UnsupportedError, match=r"operator Erf \(node 'odd'\) has no rule for precision fp16"):
        lower(model, "code_predictor", "fp16", "tensorrt-rtx")
