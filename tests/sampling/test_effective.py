"""Which value wins: the request's, the checkpoint's, or the reference's constant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.errors import EngineError
from cpspec_trt.files.requests import SamplingSettings, read_tts_requests
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.sampling.effective import EffectiveSampling, GenerationDefaults, effective_sampling

# What the published Qwen3-TTS checkpoints ship, with values changed so that none equals a constant.
CHECKPOINT = {
    "do_sample": False,
    "temperature": 0.6,
    "top_k": 30,
    "top_p": 0.8,
    "repetition_penalty": 1.2,
    "subtalker_dosample": False,
    "subtalker_temperature": 0.5,
    "subtalker_top_k": 20,
    "subtalker_top_p": 0.7,
    "max_new_tokens": 8192,
}


def defaults(directory: Path, values: dict[str, Any] | None = None) -> GenerationDefaults:
    if values is not None:
        (directory / "generation_config.json").write_text(json.dumps(values))
    return GenerationDefaults.read(directory)


def settings_of(directory: Path, **fields: Any) -> SamplingSettings:
    path = directory / "input.json"
    path.write_text(json.dumps({"requests": [{"messages": [{"role": "assistant", "content": "Hi."}], **fields}]}))
    return read_tts_requests(path, strict=True).requests[0].settings


def effective(directory: Path, values: dict[str, Any] | None, **fields: Any) -> EffectiveSampling:
    return effective_sampling(settings_of(directory, **fields), defaults(directory, values))


def test_without_a_generation_config_the_constants_of_the_reference_apply(tmp_path: Path) -> None:
    found = effective(tmp_path, None)
    assert found.talker == FilterParameters(0.9, 50, 1.0, True)
    assert found.code_predictor == FilterParameters(0.9, 50, 1.0, True)
    assert found.repetition_penalty == 1.05
    assert found.max_frames == 2047  # 2048 Talker tokens, the last of which gets no residual codes
    assert not found.max_frames_explicit
    assert found.seed == 42
    assert found.notes == ()


def test_the_generation_config_comes_before_the_constants(tmp_path: Path) -> None:
    found = effective(tmp_path, CHECKPOINT)
    assert found.talker == FilterParameters(0.6, 30, 0.8, False)
    assert found.code_predictor == FilterParameters(0.5, 20, 0.7, False)
    assert found.repetition_penalty == 1.2
    assert found.max_frames == 8191


def test_a_generation_config_without_some_fields_is_completed_by_the_constants(tmp_path: Path) -> None:
    found = effective(tmp_path, {"temperature": 0.6, "eos_token_id": 2150})
    assert found.talker == FilterParameters(0.6, 50, 1.0, True)
    assert found.code_predictor == FilterParameters(0.9, 50, 1.0, True)


def test_the_request_comes_before_everything(tmp_path: Path) -> None:
    found = effective(
        tmp_path,
        CHECKPOINT,
        talker_temperature=1.5,
        talker_top_k=3,
        talker_top_p=0.25,
        repetition_penalty=3.0,
        subtalker_temperature=1.25,
        subtalker_top_k=4,
        subtalker_top_p=0.5,
        max_audio_length=7,
        do_sample=True,
        subtalker_do_sample=True,
        sampling_seed=9,
    )
    assert found.talker == FilterParameters(1.5, 3, 0.25, True)
    assert found.code_predictor == FilterParameters(1.25, 4, 0.5, True)
    assert (found.repetition_penalty, found.max_frames, found.seed) == (3.0, 7, 9)
    assert found.max_frames_explicit
    assert found.notes == ()


def test_talker_values_never_reach_the_code_predictor_nor_the_other_way(tmp_path: Path) -> None:
    assert effective(tmp_path, None, talker_temperature=0.1, talker_top_k=1).code_predictor.temperature == 0.9
    assert effective(tmp_path, None, subtalker_temperature=0.1, do_sample=False).talker.temperature == 0.9
    greedy_talker = effective(tmp_path, None, do_sample=False)
    assert (greedy_talker.talker.do_sample, greedy_talker.code_predictor.do_sample) == (False, True)


def test_zero_means_the_default_and_leaves_a_note_that_says_where_it_comes_from(tmp_path: Path) -> None:
    zeros = {f"{prefix}_{name}": 0 for prefix in ("talker", "subtalker") for name in ("temperature", "top_k", "top_p")}
    found = effective(tmp_path, {"top_k": 30, "subtalker_top_p": 0.7}, **zeros)
    assert found.talker == FilterParameters(0.9, 30, 1.0, True)
    assert found.code_predictor == FilterParameters(0.9, 50, 0.7, True)
    assert found.notes == (
        "talker_temperature 0 means the default: 0.9 (the reference's constant)",
        "talker_top_k 0 means the default: 30 (generation_config.json)",
        "talker_top_p 0 means the default: 1.0 (the reference's constant)",
        "subtalker_temperature 0 means the default: 0.9 (the reference's constant)",
        "subtalker_top_k 0 means the default: 50 (the reference's constant)",
        "subtalker_top_p 0 means the default: 0.7 (generation_config.json)",
    )


@pytest.mark.parametrize("values", [None, CHECKPOINT, {"top_k": 0, "temperature": 0}])
def test_the_reported_sampling_pasted_into_a_request_repeats_it(tmp_path: Path, values: dict[str, Any] | None) -> None:
    first = effective(tmp_path, values, talker_temperature=0, subtalker_top_k=17, sampling_seed=2**64 - 1)
    again = effective(tmp_path, values, **first.to_json())
    assert again.to_json() == first.to_json()
    assert (again.talker, again.code_predictor, again.seed) == (first.talker, first.code_predictor, first.seed)
    assert again.max_frames == first.max_frames


def cases(names: str, *values: Any) -> list[tuple[str, Any]]:
    return [(name, value) for name in names.split() for value in values]


WRONG = [
    *cases("do_sample subtalker_dosample", 1, "true", None),
    *cases("temperature subtalker_temperature", -1, "0.9", True, None, 10**400),
    *cases("top_k subtalker_top_k", -1, 50.0, "50", True, None),
    *cases("top_p subtalker_top_p", 0, "1", True, None, []),
    *cases("repetition_penalty", 0, -1, 1e-30, 0.00099, 1000.1, 1e30, "1", True, None),
    *cases("max_new_tokens", 1, 2.5, "2048", True, None),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_wrong_value_in_the_generation_config_is_named_with_file_and_field(
    tmp_path: Path, field: str, value: Any
) -> None:
    with pytest.raises(EngineError) as caught:
        defaults(tmp_path, {**CHECKPOINT, field: value})
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'generation_config.json'}: field '{field}' is ")
    assert "; write " in message
    assert len(message.splitlines()) == 1


def test_a_damaged_generation_config_is_an_engine_error(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(EngineError, match=r"generation_config\.json: not JSON"):
        GenerationDefaults.read(tmp_path)
