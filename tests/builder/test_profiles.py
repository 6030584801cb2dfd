"""The build plan, against the plan of a plain build written out literally."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpspec_trt.builder.exported import ExportedComponent, read_export
from cpspec_trt.builder.profiles import BuildLimits, BuildPlan, code_predictor_capacity, flag_of, plan
from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.files.manifest import TensorInfo
from tests.builder import tiny_exports

LIMITS = BuildLimits(
    max_input_len=64, max_batch_size=4, max_kv_cache_capacity=256, min_code_len=1, opt_code_len=30, max_code_len=200
)

# What a builder without self-speculation plans: tensor -> (min, opt, max). B = 4, 64 prompt rows, 256 KV rows.
PLAIN_TALKER_CONTEXT = {
    "inputs_embeds": ((1, 1, 8), (4, 32, 8), (4, 64, 8)),
    "attention_mask": ((1, 1, 1), (4, 32, 256), (4, 64, 256)),
    "rope_cos": ((1, 1, 2), (4, 32, 2), (4, 64, 2)),
    "rope_sin": ((1, 1, 2), (4, 32, 2), (4, 64, 2)),
    "write_indices": ((1,), (4,), (4,)),
    "last_row": ((1, 1), (4, 1), (4, 1)),
    "past_key_0": ((1, 2, 1, 4), (4, 2, 256, 4), (4, 2, 256, 4)),
    "past_value_0": ((1, 2, 1, 4), (4, 2, 256, 4), (4, 2, 256, 4)),
    "past_key_1": ((1, 2, 1, 4), (4, 2, 256, 4), (4, 2, 256, 4)),
    "past_value_1": ((1, 2, 1, 4), (4, 2, 256, 4), (4, 2, 256, 4)),
}
PLAIN_TALKER_GENERATION = {
    **PLAIN_TALKER_CONTEXT,
    "inputs_embeds": ((1, 1, 8), (4, 1, 8), (4, 1, 8)),
    "attention_mask": ((1, 1, 1), (4, 1, 256), (4, 1, 256)),
    "rope_cos": ((1, 1, 2), (4, 1, 2), (4, 1, 2)),
    "rope_sin": ((1, 1, 2), (4, 1, 2), (4, 1, 2)),
}
PLAIN_PREDICTOR_CONTEXT = {
    "inputs_embeds": ((1, 1, 8), (4, 8, 8), (4, 16, 8)),
    "attention_mask": ((1, 1, 24), (4, 8, 24), (4, 16, 24)),
    "rope_cos": ((1, 1, 2), (4, 8, 2), (4, 16, 2)),
    "rope_sin": ((1, 1, 2), (4, 8, 2), (4, 16, 2)),
    "write_indices": ((1,), (4,), (4,)),
    "past_key_0": ((1, 2, 24, 4), (4, 2, 24, 4), (4, 2, 24, 4)),
    "past_value_0": ((1, 2, 24, 4), (4, 2, 24, 4), (4, 2, 24, 4)),
    "past_key_1": ((1, 2, 24, 4), (4, 2, 24, 4), (4, 2, 24, 4)),
    "past_value_1": ((1, 2, 24, 4), (4, 2, 24, 4), (4, 2, 24, 4)),
}
PLAIN_PREDICTOR_GENERATION = {
    **PLAIN_PREDICTOR_CONTEXT,
    "inputs_embeds": ((1, 1, 8), (4, 1, 8), (4, 1, 8)),
    "attention_mask": ((1, 1, 24), (4, 1, 24), (4, 1, 24)),
    "rope_cos": ((1, 1, 2), (4, 1, 2), (4, 1, 2)),
    "rope_sin": ((1, 1, 2), (4, 1, 2), (4, 1, 2)),
}
# The only four entries that self-speculation changes, and only their max.
WIDENED_MAX = {
    "inputs_embeds": (4, 8, 8),
    "attention_mask": (4, 8, 24),
    "rope_cos": (4, 8, 2),
    "rope_sin": (4, 8, 2),
}
PLAIN_CODE2WAV = {
    "codes": ((1, 16, 1), (4, 16, 30), (4, 16, 200)),
    "attention_mask": ((1, 1, 5), (4, 30, 34), (4, 200, 204)),
    "rope_cos": ((1, 1, 2), (4, 30, 2), (4, 200, 2)),
    "rope_sin": ((1, 1, 2), (4, 30, 2), (4, 200, 2)),
    "state_key_0": ((1, 2, 4, 4), (4, 2, 4, 4), (4, 2, 4, 4)),
}

Ranges = dict[str, tuple[tuple[int, ...], ...]]


def ranges(found: BuildPlan, profile: int) -> Ranges:
    return {name: (r.min, r.opt, r.max) for name, r in found.profiles[profile].inputs.items()}


def with_width(found: Mapping[str, tuple[tuple[int, ...], ...]], width: int) -> Ranges:
    """The same ranges for rows of another width."""
    return {**found, "inputs_embeds": tuple((*shape[:2], width) for shape in found["inputs_embeds"])}


def planned(exported: ExportedComponent, limits: BuildLimits = LIMITS) -> BuildPlan:
    return plan(exported.config, exported.inputs, limits)


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> ExportedComponent:
    return read_export(tiny_exports.write_talker(tmp_path_factory.mktemp("talker")))


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> ExportedComponent:
    return read_export(tiny_exports.write_code_predictor(tmp_path_factory.mktemp("code_predictor")))


@pytest.fixture(scope="module")
def code2wav(tmp_path_factory: pytest.TempPathFactory) -> ExportedComponent:
    return read_export(tiny_exports.write_code2wav(tmp_path_factory.mktemp("code2wav")))


def test_the_talker_is_planned_as_if_there_were_no_speculation(talker: ExportedComponent) -> None:
    found = planned(talker)
    assert ranges(found, 0) == PLAIN_TALKER_CONTEXT
    assert ranges(found, 1) == PLAIN_TALKER_GENERATION
    assert [profile.name for profile in found.profiles] == ["context", "generation"]
    assert (found.component, found.is_code_predictor, found.widened) == ("talker", False, ())


def test_a_thinker_is_planned_like_any_language_model(tmp_path: Path) -> None:
    found = planned(read_export(tiny_exports.write_thinker(tmp_path)))
    assert ranges(found, 0) == with_width(PLAIN_TALKER_CONTEXT, 10)
    assert ranges(found, 1) == with_width(PLAIN_TALKER_GENERATION, 10)
    assert (found.component, found.is_code_predictor, found.widened, found.notes) == ("thinker", False, (), ())


def test_a_thinker_that_cannot_be_heard_is_noted(tmp_path: Path) -> None:
    found = planned(read_export(tiny_exports.write_thinker(tmp_path, enable_audio_output=False)))
    assert found.notes == ("the checkpoint has no audio output: the Thinker answers in text alone",)


def test_the_talker_and_code2wav_of_qwen3_omni_are_planned_like_those_of_qwen3_tts(
    tmp_path: Path, talker: ExportedComponent, code2wav: ExportedComponent
) -> None:
    for write, other in ((tiny_exports.write_omni_talker, talker), (tiny_exports.write_omni_code2wav, code2wav)):
        found, expected = planned(read_export(write(tmp_path / other.component))), planned(other)
        assert found.model.startswith("qwen3_omni_moe_")
        assert found == replace(expected, model=found.model)


def test_code2wav_is_planned_as_if_there_were_no_speculation(code2wav: ExportedComponent) -> None:
    found = planned(code2wav)
    assert ranges(found, 0) == PLAIN_CODE2WAV
    assert ranges(found, 1) == PLAIN_CODE2WAV
    assert (found.component, found.is_code_predictor, found.widened) == ("code2wav", False, ())


def test_of_a_code_predictor_only_the_generation_max_differs_from_a_plain_build(predictor: ExportedComponent) -> None:
    found = planned(predictor)
    assert ranges(found, 0) == PLAIN_PREDICTOR_CONTEXT
    expected = {
        name: (low, opt, WIDENED_MAX.get(name, high)) for name, (low, opt, high) in PLAIN_PREDICTOR_GENERATION.items()
    }
    assert ranges(found, 1) == expected
    assert (found.component, found.is_code_predictor) == ("code_predictor", True)
    assert found.widened == tuple(WIDENED_MAX)


def test_a_model_is_a_code_predictor_by_the_end_of_its_name(tmp_path: Path) -> None:
    write = tiny_exports.write_code_predictor
    for number, model in enumerate(("qwen3_omni_moe_talker_code_predictor", "my_code_predictor")):
        component = read_export(write(tmp_path / str(number), model=model))
        found = planned(component)
        assert found.profiles[1].inputs["inputs_embeds"].max == (4, 8, 8)
        assert found.model == model


def test_an_explicit_opt_input_length_replaces_the_half(
    talker: ExportedComponent, predictor: ExportedComponent
) -> None:
    limits = replace(LIMITS, opt_input_len=50)
    assert planned(talker, limits).profiles[0].inputs["inputs_embeds"].opt == (4, 50, 8)
    assert planned(predictor, limits).profiles[0].inputs["inputs_embeds"].opt == (4, 16, 8)  # a frame has no more


def test_one_prompt_row_is_enough_for_half_of_it(talker: ExportedComponent) -> None:
    limits = replace(LIMITS, max_input_len=1)
    assert planned(talker, limits).profiles[0].inputs["inputs_embeds"].opt == (4, 1, 8)


@pytest.mark.parametrize(("groups", "capacity"), [(2, 16), (8, 16), (9, 24), (16, 24), (17, 32), (32, 40)])
def test_the_code_predictor_capacity_is_a_frame_and_one_verify_pass_in_steps_of_eight(
    groups: int, capacity: int
) -> None:
    assert code_predictor_capacity(groups, 8) == capacity


@pytest.mark.parametrize(("rows", "capacity"), [(9, 32), (63, 80), (64, 80)])
def test_rows_for_trees_widen_the_generation_profile_and_the_cache_and_nothing_else(
    predictor: ExportedComponent, rows: int, capacity: int
) -> None:
    found, plain = planned(predictor, replace(LIMITS, max_verify_rows=rows)), planned(predictor)
    assert found.profiles[1].inputs["inputs_embeds"].max[1] == rows
    assert found.profiles[1].inputs["inputs_embeds"].opt == plain.profiles[1].inputs["inputs_embeds"].opt
    assert found.profiles[1].inputs["past_key_0"].max[2] == capacity
    assert found.profiles[0].inputs["inputs_embeds"] == plain.profiles[0].inputs["inputs_embeds"]
    assert found.limits["max_verify_rows"] == rows
    assert plain.limits["max_verify_rows"] == 8


@pytest.mark.parametrize("rows", [0, 7, 65])
def test_a_verify_pass_has_8_to_64_rows(rows: int) -> None:
    with pytest.raises(UsageError, match=rf"^--maxVerifyRows is {rows}; it must lie in 8 … 64$"):
        BuildLimits(max_verify_rows=rows)


def test_the_code_predictor_capacity_ignores_the_talkers_and_says_so(predictor: ExportedComponent) -> None:
    found = planned(predictor, replace(LIMITS, max_kv_cache_capacity=4096))
    assert found.limits["max_kv_cache_capacity"] == 24
    assert found.limits["max_input_len"] == 16
    assert any("24 rows" in line for line in found.details)


def test_a_capacity_beyond_the_models_positions_is_noted(talker: ExportedComponent) -> None:
    assert planned(talker).notes == ()
    (note,) = planned(talker, replace(LIMITS, max_kv_cache_capacity=9000)).notes
    assert "9000" in note
    assert "8192" in note


@given(
    st.builds(
        BuildLimits,
        max_input_len=st.integers(2, 512),
        max_batch_size=st.integers(1, 16),
        max_kv_cache_capacity=st.integers(512, 8192),
        min_code_len=st.integers(1, 10),
        opt_code_len=st.integers(10, 20),
        max_code_len=st.integers(20, 4000),
    ),
)
def test_every_input_has_an_ordered_range_under_both_profiles(
    talker: ExportedComponent, predictor: ExportedComponent, code2wav: ExportedComponent, limits: BuildLimits
) -> None:
    for exported in (talker, predictor, code2wav):
        for profile in planned(exported, limits).profiles:
            assert list(profile.inputs) == [info.name for info in exported.inputs]
            for info in exported.inputs:
                found = profile.inputs[info.name]
                for size, low, opt, high in zip(info.shape, found.min, found.opt, found.max, strict=True):
                    assert 1 <= low <= opt <= high
                    assert size == -1 or low == high == size


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_input_len": 0}, "--maxInputLen is 0; it must lie in 1 … 131072"),
        ({"max_batch_size": -3}, "--maxBatchSize is -3; it must lie in 1 … 131072"),
        ({"max_kv_cache_capacity": 10**9}, "--maxKVCacheCapacity is 1000000000; it must lie in 1 … 131072"),
        ({"opt_input_len": -1}, "--optInputLen is -1; it must lie in 0 … 131072"),
        ({"opt_input_len": 65, "max_input_len": 64}, "--optInputLen 65 is larger than --maxInputLen 64"),
        ({"min_code_len": 31}, "--minCodeLen 31 is larger than --optCodeLen 30"),
        ({"opt_code_len": 201}, "--optCodeLen 201 is larger than --maxCodeLen 200"),
    ],
)
def test_limits_that_no_engine_can_have_are_usage_errors(changes: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        replace(LIMITS, **changes)
    assert str(caught.value).startswith(message)


def test_a_prompt_must_fit_into_the_talkers_cache(talker: ExportedComponent) -> None:
    with pytest.raises(UsageError, match="--maxInputLen 64 is larger than --maxKVCacheCapacity 63"):
        planned(talker, replace(LIMITS, max_kv_cache_capacity=63))


def test_a_code_predictor_needs_the_two_positions_that_start_a_frame(predictor: ExportedComponent) -> None:
    with pytest.raises(UsageError, match="--maxInputLen 1 is too small"):
        planned(predictor, replace(LIMITS, max_input_len=1))


def test_an_input_without_a_place_in_the_plan_is_named(talker: ExportedComponent) -> None:
    config, inputs = talker.config, talker.inputs
    extra = TensorInfo("lora_rank", "int64", (1,))
    with pytest.raises(EngineError, match="'lora_rank' has no place in the build plan"):
        plan(config, (*inputs, extra), LIMITS)


def test_a_missing_input_is_named(predictor: ExportedComponent) -> None:
    config, inputs = predictor.config, predictor.inputs
    with pytest.raises(EngineError, match="lacks the input 'rope_sin'"):
        plan(config, tuple(info for info in inputs if info.name != "rope_sin"), LIMITS)


def test_a_graph_of_another_width_than_the_config_is_refused(predictor: ExportedComponent) -> None:
    config, inputs = predictor.config, predictor.inputs
    swapped = tuple(replace(info, shape=(-1, -1, 9)) if info.name == "inputs_embeds" else info for info in inputs)
    with pytest.raises(EngineError, match=r"'inputs_embeds' has shape \[-1, -1, 9\].*belong to different exports"):
        plan(config, swapped, LIMITS)


def test_a_static_dimension_must_be_the_planned_one(predictor: ExportedComponent) -> None:
    config, inputs = predictor.config, predictor.inputs

    def with_capacity(rows: int) -> tuple[TensorInfo, ...]:
        return tuple(
            replace(info, shape=(*info.shape[:2], rows, *info.shape[3:])) if info.name.startswith("past_") else info
            for info in inputs
        )

    assert plan(config, with_capacity(24), LIMITS).profiles[1].inputs["past_key_0"].max == (4, 2, 24, 4)
    with pytest.raises(EngineError, match="'past_key_0' has shape"):
        plan(config, with_capacity(32), LIMITS)


def test_a_state_of_unknown_size_is_refused(code2wav: ExportedComponent) -> None:
    config, inputs = code2wav.config, code2wav.inputs
    state = TensorInfo("state_conv", "float32", (-1, 8, -1))
    with pytest.raises(EngineError, match="'state_conv': dimension 2 must have 1 <= min <= opt <= max"):
        plan(config, (*inputs, state), LIMITS)


def test_flags_are_spelled_as_the_reference_spells_them() -> None:
    assert flag_of("max_kv_cache_capacity") == "--maxKVCacheCapacity"
    assert flag_of("opt_input_len") == "--optInputLen"
