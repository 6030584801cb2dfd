"""Hints about unknown fields: what people write who know other systems, and no guess where none is near."""

from __future__ import annotations

import pytest

from cpspec_trt.files.compatibility import OMNI, TTS, Where, rows_for
from cpspec_trt.files.nearest_field import OWNERS, hint


def found(tool: str, where: Where, name: str) -> str:
    known = {level: rows_for(tool, level) for level in OWNERS}
    assert name not in known[where], "the name is known, so there is nothing to hint at"
    return hint(name, where, known, tool)


@pytest.mark.parametrize("tool", [TTS, OMNI])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("seed", "sampling_seed"),  # a part of the name
        ("samplingSeed", "sampling_seed"),  # another spelling
        ("sampling-seed", "sampling_seed"),
        ("SAMPLING_SEED", "sampling_seed"),
        ("smapling_seed", "sampling_seed"),  # a typing error
        ("voice", "speaker"),  # what others call it
        ("speaker_name", "speaker"),  # more than the name
        ("penalty", "repetition_penalty"),
        ("max_audio_len", "max_audio_length"),
        ("talker_temprature", "talker_temperature"),
    ],
)
def test_a_name_that_means_a_known_one_leads_to_it_in_a_file_and_in_a_request(tool: str, name: str, meant: str) -> None:
    for where in ("file field", "request field"):
        assert found(tool, where, name) == f"did you mean {meant}?"


@pytest.mark.parametrize(
    ("tool", "name", "meant"),
    [
        (TTS, "max_tokens", "max_audio_length"),
        (TTS, "max_new_tokens", "max_audio_length"),
        (OMNI, "max_tokens", "max_generate_length"),
        (OMNI, "max_new_tokens", "max_generate_length"),
        (TTS, "temprature", "talker_temperature"),
        (OMNI, "temprature", "temperature"),
        (TTS, "lang", "language"),
        (OMNI, "stream", "streaming"),
    ],
)
def test_the_two_tools_have_names_of_their_own(tool: str, name: str, meant: str) -> None:
    assert found(tool, "file field", name) == f"did you mean {meant}?"


@pytest.mark.parametrize("tool", [TTS, OMNI])
@pytest.mark.parametrize("where", OWNERS)
@pytest.mark.parametrize(
    "name", ["response_format", "model", "speed", "presence_penalty", "n", "x", "", "id", "a" * 10_000, "_", "日本"]
)
def test_where_no_name_is_near_there_is_no_hint(tool: str, where: Where, name: str) -> None:
    assert found(tool, where, name) == ""


@pytest.mark.parametrize(
    ("tool", "where", "name", "expected"),
    [
        (TTS, "request field", "batch_size", "did you mean batch_size of the file?"),
        (TTS, "file field", "messages", "did you mean messages of a request?"),
        (TTS, "file field", "input", "did you mean messages of a request?"),
        (TTS, "request field", "text", "did you mean text of a content item?"),
        (OMNI, "file field", "stop", "did you mean stop of a request?"),
        (OMNI, "file field", "stop_sequences", "did you mean stop of a request?"),
    ],
)
def test_a_name_of_another_level_is_given_with_its_owner(tool: str, where: Where, name: str, expected: str) -> None:
    assert found(tool, where, name) == expected


def test_a_name_that_is_refused_says_so_at_every_level() -> None:
    refused = "and refused there: LoRA adapters are not supported"
    assert found(OMNI, "file field", "lora_name") == f"it is a field of a request, {refused}"
    assert found(TTS, "file field", "ref_audoi").startswith("did you mean ref_audio? It is refused: voice cloning is")
    assert found(TTS, "request field", "stop_sequences").startswith("did you mean stop? It is refused: it belongs to Q")


@pytest.mark.parametrize("tool", [TTS, OMNI])
def test_every_known_name_with_a_letter_left_out_leads_back_to_a_name_that_holds_it(tool: str) -> None:
    for where in OWNERS:
        names = rows_for(tool, where)
        for name in names:
            shorter = name[: len(name) // 2] + name[len(name) // 2 + 1 :]
            if len(name) > 8 and all(shorter not in rows_for(tool, level) for level in OWNERS):
                assert "did you mean " in found(tool, where, shorter), shorter
