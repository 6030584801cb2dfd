"""Effective values of a Qwen3-Omni request: the Thinker's, the Talker's, the CodePredictor's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.errors import EngineError
from cpspec_trt.files.omni_requests import OmniRequest, read_omni_requests
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.sampling.effective import OMNI_FAMILY, GenerationDefaults
from cpspec_trt.sampling.omni import EffectiveOmniSampling, effective_omni_sampling

# The names of the published Qwen3-Omni-30B-A3B-Instruct, with values changed so that none equals a constant.
CHECKPOINT = {
    "talker_max_new_tokens": 1000,
    "talker_repetition_penalty": 1.2,
    "talker_temperature": 0.6,
    "talker_top_k": 30,
    "talker_top_p": 0.7,
}


def request_of(directory: Path, **fields: Any) -> OmniRequest:
    path = directory / "input.json"
    path.write_text(json.dumps({"requests": [{"messages": [{"role": "user", "content": "Hi."}], **fields}]}))
    return read_omni_requests(path, strict=True).requests[0]


def defaults(directory: Path, values: dict[str, Any] | None) -> GenerationDefaults:
    if values is not None:
        (directory / "generation_config.json").write_text(json.dumps(values))
    return GenerationDefaults.read(directory, OMNI_FAMILY)


def effective(directory: Path, values: dict[str, Any] | None, **fields: Any) -> EffectiveOmniSampling:
    return effective_omni_sampling(request_of(directory, **fields), defaults(directory, values))


def test_without_a_generation_config_the_constants_of_the_references_apply(tmp_path: Path) -> None:
    found = effective(tmp_path, None)
    assert found.thinker == FilterParameters(1.0, 50, 0.8, True)
    assert (found.max_generate_length, found.seed) == (256, 42)
    assert found.speech is not None
    assert found.speech.talker == FilterParameters(0.9, 50, 1.0, True)
    assert found.speech.code_predictor == FilterParameters(1.0, 50, 0.8, True)
    assert found.speech.repetition_penalty == 1.05
    assert found.speech.max_frames == 4095  # 4096 Talker tokens, the last of which gets no residual codes
    assert found.speech.seed == 42
    assert found.notes == ()


def test_the_generation_config_gives_the_talkers_defaults_and_no_others(tmp_path: Path) -> None:
    unprefixed = {"temperature": 0.1, "top_k": 1, "top_p": 0.1, "do_sample": False, "max_new_tokens": 2}
    found = effective(tmp_path, CHECKPOINT | unprefixed | {"subtalker_top_k": 3})
    assert found.speech is not None
    assert found.speech.talker == FilterParameters(0.6, 30, 0.7, True)
    assert (found.speech.repetition_penalty, found.speech.max_frames) == (1.2, 999)
    assert found.speech.code_predictor == FilterParameters(1.0, 50, 0.8, True)
    assert found.thinker == FilterParameters(1.0, 50, 0.8, True)
    assert found.max_generate_length == 256


def test_the_request_comes_before_everything(tmp_path: Path) -> None:
    found = effective(
        tmp_path,
        CHECKPOINT,
        temperature=0.5,
        top_k=7,
        top_p=0.6,
        do_sample=False,
        max_generate_length=9,
        talker_temperature=1.5,
        talker_top_k=3,
        talker_top_p=0.25,
        talker_do_sample=False,
        repetition_penalty=3.0,
        subtalker_temperature=1.25,
        subtalker_top_k=4,
        subtalker_top_p=0.5,
        subtalker_do_sample=False,
        max_audio_length=7,
        sampling_seed=9,
    )
    assert found.thinker == FilterParameters(0.5, 7, 0.6, False)
    assert (found.max_generate_length, found.seed) == (9, 9)
    assert found.speech is not None
    assert found.speech.talker == FilterParameters(1.5, 3, 0.25, False)
    assert found.speech.code_predictor == FilterParameters(1.25, 4, 0.5, False)
    assert (found.speech.repetition_penalty, found.speech.max_frames, found.speech.seed) == (3.0, 7, 9)


@pytest.mark.parametrize("temperature", [0, 1e-9, 1e-45])
def test_a_tiny_temperature_makes_the_thinker_greedy_and_only_the_thinker(tmp_path: Path, temperature: float) -> None:
    found = effective(tmp_path, None, temperature=temperature)
    assert found.thinker.greedy
    assert found.speech is not None
    assert not found.speech.talker.greedy
    assert not found.speech.code_predictor.greedy
    assert found.notes == ()


def test_a_thinker_without_top_k_or_top_p_is_what_zero_and_one_ask_for(tmp_path: Path) -> None:
    assert effective(tmp_path, None, top_k=0, top_p=1.0).thinker == FilterParameters(1.0, 0, 1.0, True)


def test_zero_of_the_speaking_models_means_the_default_and_leaves_a_note(tmp_path: Path) -> None:
    found = effective(tmp_path, {"talker_top_k": 30}, talker_top_k=0, subtalker_top_p=0, talker_temperature=0)
    assert found.speech is not None
    assert (found.speech.talker.top_k, found.speech.code_predictor.top_p) == (30, 0.8)
    assert found.notes == (
        "talker_temperature 0 means the default: 0.9 (the reference's constant)",
        "talker_top_k 0 means the default: 30 (generation_config.json)",
        "subtalker_top_p 0 means the default: 0.8 (the reference's constant)",
    )


def test_without_audio_only_the_thinkers_values_are_reported(tmp_path: Path) -> None:
    found = effective_omni_sampling(request_of(tmp_path, talker_top_k=0), None)
    assert found.notes == ()
    assert found.to_json() == {
        "sampling_seed": 42,
        "do_sample": True,
        "temperature": 1.0,
        "top_k": 50,
        "top_p": 0.8,
        "max_generate_length": 256,
    }


@pytest.mark.parametrize("values", [None, CHECKPOINT])
def test_the_reported_sampling_pasted_into_a_request_repeats_it(tmp_path: Path, values: dict[str, Any] | None) -> None:
    first = effective(tmp_path, values, talker_top_p=0, subtalker_top_k=17, temperature=0, talker_do_sample=False)
    again = effective(tmp_path, values, **first.to_json())
    assert again.to_json() == first.to_json()
    assert (again.thinker, again.seed) == (first.thinker, first.seed)
    assert first.speech is not None
    assert again.speech is not None
    assert (again.speech.talker, again.speech.code_predictor) == (first.speech.talker, first.speech.code_predictor)
    assert set(first.to_json()) == {
        *("sampling_seed", "do_sample", "temperature", "top_k", "top_p", "max_generate_length"),
        *("talker_do_sample", "talker_temperature", "talker_top_k", "talker_top_p", "repetition_penalty"),
        *("subtalker_do_sample", "subtalker_temperature", "subtalker_top_k", "subtalker_top_p", "max_audio_length"),
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("talker_temperature", -1),
        ("talker_top_k", 2.5),
        ("talker_top_p", 0),
        ("talker_repetition_penalty", 0),
        ("talker_max_new_tokens", 1),
        ("talker_do_sample", "yes"),
    ],
)
def test_a_wrong_value_in_the_generation_config_is_named_as_it_stands_there(
    tmp_path: Path, field: str, value: Any
) -> None:
    with pytest.raises(EngineError, match=f"generation_config\\.json: field '{field}' is .*; write .*, or remove"):
        defaults(tmp_path, {**CHECKPOINT, field: value})
