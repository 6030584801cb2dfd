"""config.json of a component: every value comes from the file, or its absence is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.errors import CheckpointError, EngineError
from cpspec_trt.files.engine_config import (
    Code2WavConfig,
    CodePredictorConfig,
    OmniCode2WavConfig,
    OmniTalkerConfig,
    TalkerConfig,
    ThinkerConfig,
    is_code_predictor,
    read_component_config,
    read_config_of,
    take,
    to_json,
)
from tests.builder.tiny_exports import (
    CODE2WAV_CONFIG,
    CODE_PREDICTOR_CONFIG,
    OMNI_CODE2WAV_CONFIG,
    OMNI_TALKER_CONFIG,
    TALKER_CONFIG,
    THINKER_CONFIG,
)

ALL = {
    TalkerConfig: TALKER_CONFIG,
    CodePredictorConfig: CODE_PREDICTOR_CONFIG,
    Code2WavConfig: CODE2WAV_CONFIG,
    ThinkerConfig: THINKER_CONFIG,
    OmniTalkerConfig: OMNI_TALKER_CONFIG,
    OmniCode2WavConfig: OMNI_CODE2WAV_CONFIG,
}


def write(directory: Path, config: dict[str, Any]) -> Path:
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory


@pytest.mark.parametrize(("kind", "value"), ALL.items())
def test_a_config_is_read_as_its_kind_and_written_back_the_same(
    tmp_path: Path, kind: type[Any], value: dict[str, Any]
) -> None:
    config = read_component_config(write(tmp_path, value))
    assert isinstance(config, kind)
    assert to_json(config) == value
    assert read_component_config(write(tmp_path, to_json(config))) == config


def test_unknown_fields_are_left_to_others(tmp_path: Path) -> None:
    config = read_component_config(write(tmp_path, {**TALKER_CONFIG, "builder_config": {"max_batch_size": 4}}))
    assert to_json(config) == TALKER_CONFIG


def test_whole_numbers_serve_as_real_ones(tmp_path: Path) -> None:
    config = read_component_config(write(tmp_path, {**TALKER_CONFIG, "rope_theta": 1_000_000}))
    assert isinstance(config, TalkerConfig)
    assert config.decoder.rope_theta == 1e6


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("qwen3_tts_code_predictor", True),
        ("qwen3_omni_moe_talker_code_predictor", True),
        ("_code_predictor", True),
        ("code_predictor", False),
        ("qwen3_tts_code_predictor_v2", False),
        ("qwen3_tts_talker", False),
    ],
)
def test_a_code_predictor_is_known_by_the_end_of_its_model_name(model: str, expected: bool) -> None:
    assert is_code_predictor(model) is expected


@pytest.mark.parametrize("value", ALL.values(), ids=[kind.__name__ for kind in ALL])
def test_every_field_is_required(tmp_path: Path, value: dict[str, Any]) -> None:
    for field in value:
        for broken in ({key: item for key, item in value.items() if key != field}, {**value, field: None}):
            with pytest.raises(EngineError, match=f"config.json: required field '{field}' is missing; export it again"):
                read_component_config(write(tmp_path, broken))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": 7}, "field 'model' must be a text, found 7"),
        ({"model": "bert"}, "field 'model' is 'bert', expected qwen3_tts_talker, qwen3_tts_code2wav, qwen3_omni_moe_"),
        ({"hidden_size": "8"}, "field 'hidden_size' must be a whole number, found '8'"),
        ({"hidden_size": 8.0}, "field 'hidden_size' must be a whole number, found 8.0"),
        ({"hidden_size": True}, "field 'hidden_size' must be a whole number, found True"),
        ({"hidden_size": 0}, "field 'hidden_size' must be positive, found 0"),
        ({"num_hidden_layers": -1}, "field 'num_hidden_layers' must be positive, found -1"),
        ({"num_code_groups": 1}, "field 'num_code_groups' must be at least 2 (c0 and one RVQ depth), found 1"),
        ({"codec_eos_id": -1}, "field 'codec_eos_id' must be 0 or more, found -1"),
        ({"rms_norm_eps": "tiny"}, "field 'rms_norm_eps' must be a number, found 'tiny'"),
        ({"rms_norm_eps": 0}, "field 'rms_norm_eps' must be positive, found 0.0"),
        ({"rope_theta": 10**400}, "field 'rope_theta' is too large: 1000"),
        ({"rope_theta": 1e17}, "field 'rope_theta' is too large: 1e+17"),
        ({"num_hidden_layers": 10**12}, "field 'num_hidden_layers' is too large: 1000000000000"),
        ({"num_code_groups": 65_537}, "field 'num_code_groups' is too large: 65537"),
        ({"hidden_size": 10**400}, "field 'hidden_size' is too large: 1000"),
        ({"speakers": ["ryan"]}, "field 'speakers' must be an object, found ['ryan']"),
        ({"speakers": {"ryan": "40"}}, "field 'speakers.ryan' must be a whole number, found '40'"),
        ({"dialects": {"eric": 1}}, "field 'dialects.eric' must be a text, found 1"),
    ],
)
def test_a_bad_value_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError) as caught:
        read_component_config(write(tmp_path, {**TALKER_CONFIG, **changes}))
    assert str(caught.value).startswith(f"{tmp_path / 'config.json'}: {message}")


@pytest.mark.parametrize("window", [1, 65_537])
def test_a_window_that_no_engine_can_have_is_named(tmp_path: Path, window: int) -> None:
    with pytest.raises(EngineError, match=f"field 'sliding_window' must lie in 2 … 65536, found {window}"):
        read_component_config(write(tmp_path, {**CODE2WAV_CONFIG, "sliding_window": window}))


@pytest.mark.parametrize("rates", [[8, "5"], [8, 0], [8, 2.5]])
def test_a_bad_rate_is_named(tmp_path: Path, rates: list[Any]) -> None:
    with pytest.raises(EngineError, match="field 'upsample_rates' must be"):
        read_component_config(write(tmp_path, {**CODE2WAV_CONFIG, "upsample_rates": rates}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_experts": 0}, "field 'num_experts' must be positive, found 0"),
        ({"norm_topk_prob": 1}, "field 'norm_topk_prob' must be true or false, found 1"),
        ({"enable_audio_output": "yes"}, "field 'enable_audio_output' must be true or false, found 'yes'"),
        (
            {"shared_expert_intermediate_size": -8},
            "field 'shared_expert_intermediate_size' must be 0 or more, found -8",
        ),
        ({"dense_layers": [0, -1]}, "field 'dense_layers' must be 0 or more, found -1"),
        ({"dense_layers": 1}, "field 'dense_layers' must be a list, found 1"),
    ],
)
def test_a_bad_value_of_a_mixture_of_experts_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError) as caught:
        read_component_config(write(tmp_path, {**THINKER_CONFIG, **changes}))
    assert str(caught.value).startswith(f"{tmp_path / 'config.json'}: {message}")


def test_no_shared_expert_no_dense_layer_and_no_accepted_layer_are_zero_and_empty(tmp_path: Path) -> None:
    nothing = {"shared_expert_intermediate_size": 0, "dense_layers": [], "accept_hidden_layer": 0}
    config = read_component_config(write(tmp_path, {**THINKER_CONFIG, **nothing, "norm_topk_prob": False}))
    assert isinstance(config, ThinkerConfig)
    assert (config.moe.shared_expert_intermediate_size, config.moe.dense_layers) == (0, ())
    assert (config.accept_hidden_layer, config.moe.norm_topk_prob) == (0, False)


def test_ids_may_be_zero(tmp_path: Path) -> None:
    config = read_component_config(write(tmp_path, {**TALKER_CONFIG, "codec_bos_id": 0, "speakers": {"ryan": 0}}))
    assert isinstance(config, TalkerConfig)
    assert (config.codec_bos_id, dict(config.speakers)) == (0, {"ryan": 0})


def test_a_missing_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"config.json: the engine config does not exist"):
        read_component_config(tmp_path)


def test_a_component_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    write(tmp_path, CODE_PREDICTOR_CONFIG)
    assert isinstance(read_config_of(tmp_path, CodePredictorConfig), CodePredictorConfig)
    with pytest.raises(EngineError, match="'qwen3_tts_code_predictor', which is not a Talker of Qwen3-TTS; pass its"):
        read_config_of(tmp_path, TalkerConfig)
    with pytest.raises(EngineError, match="'qwen3_tts_code_predictor', which is not a code2wav decoder of Qwen3-TTS"):
        read_config_of(tmp_path, Code2WavConfig)


def test_a_missing_checkpoint_value_is_blamed_on_the_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="required field 'spk_id' is missing; the checkpoint is incomplete"):
        take({}, "spk_id", dict, tmp_path / "config.json", CheckpointError)


@pytest.mark.parametrize(
    "config",
    [TALKER_CONFIG, CODE_PREDICTOR_CONFIG, CODE2WAV_CONFIG, THINKER_CONFIG, OMNI_TALKER_CONFIG, OMNI_CODE2WAV_CONFIG],
    ids=lambda config: config["model"],
)
def test_every_field_and_every_model_stands_on_the_page(config: dict[str, Any]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")
    assert [name for name in (*config, config["model"]) if f"`{name}`" not in page] == []
