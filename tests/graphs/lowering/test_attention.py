"""Attention over a static cache: the exported attention, over as many keys as the mask is wide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from cpspec_trt.graphs.lowering.attention import folded_attentions, fuse_attention, slice_keys
from cpspec_trt.graphs.lowering.lowered import lower
from cpspec_trt.graphs.lowering.precision import Precision
from tests.graphs.lowering.conftest import Open
from tests.graphs.lowering.exports import DECODERS, NEW, SLOTS, STARTS, Arrays, Exported, feeds_of, run
from tests.graphs.lowering.rounding import evaluate
from tests.graphs.lowering.test_precision import TOLERANCE, assert_close

Pass = Callable[[onnx.ModelProto], onnx.ModelProto]

PASSES: dict[str, Pass] = {"sliced": slice_keys, "fused": fuse_attention}
REFORMED = ("tts talker", "omni talker", "omni thinker")
FEWEST = int(STARTS.max()) + NEW  # keys that the longest sequence has
EXACT = 1e-6  # both compute in fp32


def narrowed(feeds: Arrays, width: int, poison: float = np.nan) -> Arrays:
    """A mask of ``width`` keys, and ``poison`` in all cache slots behind them."""
    found = {name: array.copy() for name, array in feeds.items()}
    found["attention_mask"] = np.ascontiguousarray(found["attention_mask"][:, :, :width])
    for name, array in found.items():
        if name.startswith("past_"):
            array[:, :, width:] = poison
    return found


def seen(outputs: Arrays, width: int = FEWEST) -> Arrays:
    """Outputs without the cache slots that no row may see."""
    return {name: array[:, :, :width] if name.startswith("present_") else array for name, array in outputs.items()}


@pytest.mark.parametrize("width", [FEWEST, FEWEST + 3, SLOTS])
@pytest.mark.parametrize("form", PASSES)
@pytest.mark.parametrize("name", REFORMED)
def test_it_is_the_exported_attention_whatever_the_width_of_the_mask(
    exported: Open, name: str, form: str, width: int
) -> None:
    found = exported(name)
    feeds = feeds_of(found)
    lowered = PASSES[form](found.model)
    onnx.checker.check_model(lowered, full_check=True)
    assert_close(seen(run(lowered, narrowed(feeds, width))), seen(run(found.model, feeds)), EXACT)


@pytest.mark.parametrize("form", PASSES)
@pytest.mark.parametrize("name", REFORMED)
def test_a_step_of_one_row_is_the_exported_one(exported: Open, name: str, form: str) -> None:
    found = exported(name)
    feeds = feeds_of(found)
    for key in ("inputs_embeds", "attention_mask", "rope_cos", "rope_sin"):
        feeds[key] = np.ascontiguousarray(feeds[key][:, :1])
    feeds["last_row"][:] = 0
    width = int(STARTS.max()) + 1
    expected = seen(run(found.model, feeds), width)
    assert_close(seen(run(PASSES[form](found.model), narrowed(feeds, width)), width), expected, EXACT)


@pytest.mark.parametrize("form", PASSES)
def test_a_mask_that_is_too_narrow_would_show(exported: Open, form: str) -> None:
    """The control of the tests above: without its last key a row comes out differently."""
    found = exported("tts talker")
    feeds = feeds_of(found)
    feeds["last_row"][:] = NEW - 1
    few = run(PASSES[form](found.model), narrowed(feeds, FEWEST - 1, poison=0))["logits"]
    enough = run(PASSES[form](found.model), narrowed(feeds, FEWEST, poison=0))["logits"]
    longest = int(STARTS.argmax())
    assert np.abs(few[longest] - enough[longest]).max() > 1e-3
    others = np.arange(len(STARTS)) != longest
    np.testing.assert_allclose(few[others], enough[others], atol=1e-5, rtol=0)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", REFORMED)
def test_slots_that_the_mask_hides_are_not_seen_in_low_precision(
    exported: Open, name: str, precision: Precision
) -> None:
    """Large values inside the mask's width but behind a sequence's end: an unmasked one would win every softmax."""
    found = exported(name)
    feeds = feeds_of(found)
    poisoned = {key: array.copy() for key, array in feeds.items()}
    for key, array in poisoned.items():
        if key.startswith("past_"):
            for row, start in enumerate(STARTS):
                array[row, :, start + NEW :] = 3e4
    lowered = lower(found.model, found.component, precision, "tensorrt-rtx")
    written = int(STARTS.min()) + NEW
    clean, other = (seen(evaluate(lowered, given), written) for given in (feeds, poisoned))
    for key, array in clean.items():
        np.testing.assert_array_equal(other[key], array, err_msg=key)
    assert_close(clean, seen(run(found.model, feeds), written), TOLERANCE[precision])


def dims(model: onnx.ModelProto, name: str) -> list[int | str]:
    value = next(value for value in model.graph.input if value.name == name)
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def pinned(found: Exported) -> onnx.ModelProto:
    """The export with a number for ``capacity``, as a builder of static caches gives it."""
    model = onnx.ModelProto()
    model.CopyFrom(found.model)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "capacity":
                dim.dim_value = SLOTS
    return model


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", REFORMED)
def test_on_tensorrt_the_cache_is_static_and_the_mask_is_not(exported: Open, name: str, precision: Precision) -> None:
    found = exported(name)
    lowered = lower(pinned(found), found.component, precision, "tensorrt")
    assert dims(lowered, "attention_mask") == ["batch", "new", "keys"]
    assert dims(lowered, "past_key_0")[2] == SLOTS
    operators = {node.op_type for node in lowered.graph.node}
    assert ("Attention" in operators) == (precision == "fp16")


@pytest.mark.parametrize("name", DECODERS)
def test_on_onnx_runtime_attention_stays_folded(exported: Open, name: str) -> None:
    found = exported(name)
    lowered = lower(found.model, found.component, "fp16", "onnxruntime")
    assert dims(lowered, "attention_mask") == ["batch", "new", "capacity"]
    assert "Attention" not in {node.op_type for node in lowered.graph.node}


@pytest.mark.parametrize("name", ["tts code_predictor", "omni code_predictor"])
def test_a_code_predictor_stays_folded_everywhere(exported: Open, name: str) -> None:
    found = exported(name)
    lowered = lower(found.model, found.component, "fp16", "tensorrt")
    assert lowered == lower(found.model, found.component, "fp16", "onnxruntime")
    assert dims(lowered, "attention_mask") == ["batch", "new", "capacity"]


@pytest.mark.parametrize("name", REFORMED)
def test_the_operator_has_the_inputs_that_tensorrt_takes(exported: Open, name: str) -> None:
    """Query, key, value and one mask for all layers; no lengths, no causal flag and no scale are left to the parser."""
    found = exported(name)
    graph = lower(found.model, found.component, "bf16", "tensorrt-rtx").graph
    operators = [node for node in graph.node if node.op_type == "Attention"]
    assert len(operators) == found.number("num_hidden_layers")
    assert len({node.input[3] for node in operators}) == 1
    for node in operators:
        assert len(node.input) == 4
        assert len(node.output) == 1
        assert {attribute.name: attribute.f for attribute in node.attribute} == {"scale": 1.0}


def test_every_attention_is_found_with_its_scale(exported: Open) -> None:
    import onnx_graphsurgeon as gs

    found = exported("omni thinker")
    attentions = list(folded_attentions(gs.import_onnx(found.model)))
    assert len(attentions) == found.number("num_hidden_layers")
    assert {round(each.scale, 6) for each in attentions} == {round(found.number("head_dim") ** -0.5, 6)}
