"""The JSON files of Qwen3-Omni at the published size, against values read from the published checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cpspec_trt.synthetic.omni_configs import omni_config, omni_generation_config
from cpspec_trt.synthetic.omni_spec import OMNI_SPECS
from cpspec_trt.synthetic.tokenizer import write_tokenizer

PUBLISHED = OMNI_SPECS["published_30b"]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"), PUBLISHED.text_base_vocab)


def _select(config: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    return {name: config.get(name) for name in expected}


def test_the_ids_of_the_text_vocabulary_are_the_published_ones(vocabulary: dict[str, int]) -> None:
    config = omni_config(PUBLISHED, vocabulary)
    top = {
        "im_start_token_id": 151644,
        "im_end_token_id": 151645,
        "tts_pad_token_id": 151671,
        "tts_bos_token_id": 151672,
        "tts_eos_token_id": 151673,
    }
    assert _select(config, top) == top
    media = {
        "audio_end_token_id": 151670,
        "audio_start_token_id": 151669,
        "audio_token_id": 151675,
        "image_token_id": 151655,
        "video_token_id": 151656,
        "vision_start_token_id": 151652,
    }
    assert _select(config["thinker_config"], media) == media
    assert _select(config["talker_config"], media) == media


def test_the_ids_of_the_codec_vocabulary_are_the_published_ones(vocabulary: dict[str, int]) -> None:
    talker = omni_config(PUBLISHED, vocabulary)["talker_config"]
    tags = ("pad_id", "bos_id", "eos_token_id", "nothink_id", "think_bos_id", "think_eos_id")
    assert [talker[f"codec_{tag}"] for tag in tags] == [2148, 2149, 2150, 2155, 2156, 2157]
    assert "codec_think_id" not in talker
    assert talker["speaker_id"] == {"chelsie": 2301, "ethan": 2302, "aiden": 2303}


def test_the_published_style_has_the_fields_of_the_published_file(vocabulary: dict[str, int]) -> None:
    config = omni_config(PUBLISHED, vocabulary)
    thinker, talker = config["thinker_config"]["text_config"], config["talker_config"]["text_config"]
    rope = {"interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default", "type": "default"}
    assert (thinker["rope_theta"], thinker["rope_scaling"]) == (1000000, rope | {"mrope_interleaved": True})
    assert (talker["rope_theta"], talker["rope_scaling"]) == (1000000, rope)
    code_predictor = config["talker_config"]["code_predictor_config"]
    assert (code_predictor["rope_theta"], code_predictor["rope_scaling"]) == (1000000, None)
    assert config["code2wav_config"]["rope_theta"] == 10000
    expected = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True}
    assert _select(thinker, expected) == expected
    expected = {"num_experts": 128, "num_experts_per_tok": 6, "shared_expert_intermediate_size": 768}
    assert _select(talker, expected) == expected
    assert config["talker_config"]["accept_hidden_layer"] == 24
    assert config["dtype"] == "bfloat16"


def test_the_style_of_transformers_5_renames_fields_and_keeps_every_value(vocabulary: dict[str, int]) -> None:
    older = omni_config(PUBLISHED, vocabulary)
    newer = omni_config(replace(PUBLISHED, style="transformers_5"), vocabulary)
    for path in (
        ("thinker_config", "text_config"),
        ("talker_config", "text_config"),
        ("talker_config", "code_predictor_config"),
        ("code2wav_config",),
    ):
        old, new = older, newer
        for name in path:
            old, new = old[name], new[name]
        assert not {"rope_theta", "rope_scaling"} & new.keys()
        assert new["rope_parameters"]["rope_theta"] == old["rope_theta"]
        scaling = dict(old.get("rope_scaling") or {})
        scaling.pop("type", None)
        assert new["rope_parameters"] == {"rope_type": "default", "rope_theta": old["rope_theta"]} | scaling
    assert newer["talker_config"]["text_config"]["num_local_experts"] == 128
    assert "num_experts" not in newer["talker_config"]["text_config"]
    assert newer["thinker_config"]["text_config"]["num_experts"] == 128


def test_the_generation_config_says_nothing_of_the_thinker() -> None:
    assert omni_generation_config() == {
        "talker_max_new_tokens": 4096,
        "talker_repetition_penalty": 1.05,
        "talker_temperature": 0.9,
        "talker_top_k": 50,
        "talker_top_p": 1.0,
    }
