"""The JSON files at the published sizes, against values read from the published checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpspec_trt.synthetic.configs import model_config, speech_config
from cpspec_trt.synthetic.spec import SPECS
from cpspec_trt.synthetic.tokenizer import write_tokenizer


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"), SPECS["published_1b7"].text_base_vocab)


def test_the_ids_of_the_codec_vocabulary_are_the_published_ones(vocabulary: dict[str, int]) -> None:
    talker = model_config(SPECS["published_1b7"], vocabulary)["talker_config"]
    tags = ("pad_id", "bos_id", "eos_token_id", "think_id", "nothink_id", "think_bos_id", "think_eos_id")
    assert [talker[f"codec_{tag}"] for tag in tags] == [2148, 2149, 2150, 2154, 2155, 2156, 2157]
    assert talker["codec_language_id"]["english"] == 2050
    assert talker["codec_language_id"]["sichuan_dialect"] == 2062
    assert {name: talker["spk_id"][name] for name in ("ryan", "eric", "uncle_fu")} == {
        "ryan": 3061,
        "eric": 2875,
        "uncle_fu": 3010,
    }
    assert talker["spk_is_dialect"]["eric"] == "sichuan_dialect"
    assert talker["spk_is_dialect"]["dylan"] == "beijing_dialect"
    assert talker["spk_is_dialect"]["ryan"] is False


def test_the_published_sizes_differ_in_the_width_of_the_talker_only(vocabulary: dict[str, int]) -> None:
    small, large = (
        model_config(SPECS[name], vocabulary)["talker_config"] for name in ("published_0b6", "published_1b7")
    )
    assert {key: (small[key], large[key]) for key in small if small[key] != large[key]} == {
        "hidden_size": (1024, 2048),
        "intermediate_size": (3072, 6144),
    }


def test_a_voice_design_checkpoint_has_neither_speakers_nor_dialects(tmp_path: Path) -> None:
    spec = SPECS["tiny_design"]
    config = model_config(spec, write_tokenizer(tmp_path, spec.text_base_vocab))
    assert config["tts_model_type"] == "voice_design"
    assert config["talker_config"]["spk_id"] == config["talker_config"]["spk_is_dialect"] == {}
    assert len(config["talker_config"]["codec_language_id"]) == 10


def test_a_frame_of_the_published_decoder_has_1920_samples() -> None:
    config = speech_config(SPECS["published_0b6"])
    assert config["decode_upsample_rate"] == 1920
    assert config["decoder_config"]["sliding_window"] == 72
    assert config["decoder_config"]["codebook_dim"] == 512
