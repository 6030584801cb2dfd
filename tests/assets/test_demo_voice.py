"""The demo voice is complete: its checkpoint has the published layout, its words are its tokenizer's tokens."""

from __future__ import annotations

import json
import re
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from tokenizers import Tokenizer

from tests.assets.published_layout import decoder_shapes, encoder_shapes, tts_shapes

VOICE = Path(__file__).parents[2] / "assets" / "demo-voice"
CHECKPOINT = VOICE / "checkpoint"
TTS_WEIGHTS = CHECKPOINT / "model.safetensors"
CODEC_WEIGHTS = CHECKPOINT / "speech_tokenizer" / "model.safetensors"


def read_json(name: str) -> dict[str, Any]:
    """A JSON object of the checkpoint."""
    content: dict[str, Any] = json.loads((CHECKPOINT / name).read_text())
    return content


def stored_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor in a safetensors file."""
    with safe_open(path, "numpy") as weights:
        return {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """The checkpoint's tokenizer."""
    return Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))


@pytest.fixture(scope="module")
def words() -> list[str]:
    """The closed vocabulary."""
    return (VOICE / "checkpoint" / "vocabulary.txt").read_text().split("\n")[:-1]


@pytest.fixture(scope="module")
def heldout() -> list[str]:
    """The held-out sentences."""
    return (VOICE / "heldout.txt").read_text().split("\n")[:-1]


def test_the_talker_and_code_predictor_hold_exactly_the_published_tensors_at_the_configs_sizes() -> None:
    assert stored_shapes(TTS_WEIGHTS) == tts_shapes(read_json("config.json")["talker_config"])


def test_the_codec_holds_exactly_the_published_tensors_at_the_configs_sizes() -> None:
    config = read_json("speech_tokenizer/config.json")
    expected = decoder_shapes(config["decoder_config"]) | encoder_shapes(config["encoder_config"])
    assert stored_shapes(CODEC_WEIGHTS) == expected


@pytest.mark.parametrize("path", [TTS_WEIGHTS, CODEC_WEIGHTS], ids=["tts", "codec"])
def test_every_weight_is_a_finite_bfloat16(path: Path) -> None:
    content = path.read_bytes()
    (header_size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + header_size])
    assert {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} == {"BF16"}
    bits = np.frombuffer(content, np.uint16, offset=8 + header_size)
    exponents = bits & 0x7F80
    assert not (exponents == 0x7F80).any()


def test_the_codec_ids_lie_between_the_codes_and_the_end_of_the_talkers_vocabulary() -> None:
    talker = read_json("config.json")["talker_config"]
    codes = talker["code_predictor_config"]["vocab_size"]
    ids = [value for name, value in talker.items() if re.fullmatch(r"codec_\w+_id|codec_eos_token_id", name) and value]
    ids = [value for value in ids if isinstance(value, int)]
    ids += [*talker["spk_id"].values(), *talker["codec_language_id"].values()]
    assert len(set(ids)) == len(ids) == 10
    assert all(codes <= value < talker["vocab_size"] for value in ids)


def test_the_speakers_are_the_two_of_the_readme() -> None:
    talker = read_json("config.json")["talker_config"]
    assert set(talker["spk_id"]) == {"vivian", "ryan"}
    assert talker["spk_is_dialect"] == {"vivian": False, "ryan": False}


def test_the_special_tokens_of_the_config_are_those_of_the_tokenizer(tokenizer: Tokenizer) -> None:
    config = read_json("config.json")
    tokens = {
        "im_start_token_id": "<|im_start|>",
        "im_end_token_id": "<|im_end|>",
        "tts_pad_token_id": "<tts_pad>",
        "tts_bos_token_id": "<tts_text_bos>",
        "tts_eos_token_id": "<tts_text_eod>",
        "assistant_token_id": "assistant",
    }
    assert {field: tokenizer.token_to_id(token) for field, token in tokens.items()} == {
        field: config[field] for field in tokens
    }
    assert tokenizer.get_vocab_size() <= config["talker_config"]["text_vocab_size"]


def test_every_word_of_the_vocabulary_is_one_token(tokenizer: Tokenizer, words: list[str]) -> None:
    split = {word: tokens for word in words if len(tokens := tokenizer.encode(f" {word}").tokens) != 1}
    assert split == {}


def test_a_word_outside_the_vocabulary_is_several_tokens(tokenizer: Tokenizer, words: list[str]) -> None:
    assert "elephant" not in words
    assert len(tokenizer.encode(" elephant").tokens) > 1


def test_the_vocabulary_is_sorted_and_has_no_word_twice(words: list[str]) -> None:
    assert words == sorted(set(words))
    assert len(words) == 135


def test_held_out_sentences_use_only_words_of_the_vocabulary(heldout: list[str], words: list[str]) -> None:
    assert len(set(heldout)) == len(heldout) == 48
    assert {word for sentence in heldout for word in sentence.split()} <= set(words)


def test_held_out_sentences_have_one_token_a_word_and_one_for_a_full_stop(
    tokenizer: Tokenizer, heldout: list[str]
) -> None:
    for sentence in heldout:
        count = len(sentence.split())
        assert len(tokenizer.encode(sentence).ids) == count
        assert len(tokenizer.encode(f"{sentence.capitalize()}.").ids) == count + 1


@pytest.mark.parametrize("path", sorted((VOICE / "samples").glob("*.wav")), ids=lambda path: path.stem)
def test_a_sample_is_whole_frames_of_24_khz_mono(path: Path) -> None:
    codec = read_json("speech_tokenizer/config.json")
    with wave.open(str(path)) as sound:
        assert (sound.getframerate(), sound.getnchannels()) == (codec["output_sample_rate"], 1)
        assert sound.getnframes() > 0
        assert sound.getnframes() % codec["decode_upsample_rate"] == 0


def test_there_are_samples_of_both_speakers() -> None:
    assert {path.stem.rsplit("_", 1)[1] for path in (VOICE / "samples").glob("*.wav")} == {"vivian", "ryan"}


def test_the_licences_and_the_notices_they_ask_for_are_there() -> None:
    flite = (VOICE / "LICENSE.flite").read_text()
    assert "Carnegie Mellon University" in flite
    assert "must retain the above copyright notice" in flite
    assert "DISCLAIM ALL WARRANTIES" in flite
    assert "Apache License" in (VOICE.parents[1] / "LICENSE").read_text()


def test_the_whole_voice_is_small() -> None:
    assert sum(path.stat().st_size for path in VOICE.rglob("*") if path.is_file()) < 17_000_000
