from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cpspec_trt.errors import CheckpointError, RequestError, UnsupportedError
from cpspec_trt.files.engine_config import OmniTalkerConfig, TalkerConfig
from cpspec_trt.text.voices import Voice, resolve_omni_speaker, resolve_voice

MakeConfig = Callable[..., TalkerConfig]
MakeTalker = Callable[..., OmniTalkerConfig]
# Ids of the golden config: ryan 300, eric 301 (sichuan_dialect 202), english 200, chinese 201


@pytest.mark.parametrize(
    ("speaker", "language", "speaker_id", "language_id"),
    [
        ("ryan", "english", 300, 200),
        ("Ryan", "ENGLISH", 300, 200),
        ("ryan", "", 300, None),
        ("ryan", "Auto", 300, None),
        ("ryan", "chinese", 300, 201),
        ("eric", "", 301, 202),
        ("ERIC", "auto", 301, 202),
        ("eric", "Chinese", 301, 202),
        ("eric", "english", 301, 200),
        ("ryan", "Sichuan_Dialect", 300, 202),
    ],
)
def test_speaker_language_and_dialect_become_the_codec_ids_of_the_reference(
    speaker: str, language: str, speaker_id: int, language_id: int | None, talker_config: MakeConfig
) -> None:
    assert resolve_voice(talker_config(), speaker, language, "") == Voice(speaker_id, language_id, "", ())


def test_names_are_compared_without_case_on_the_side_of_the_config_too(talker_config: MakeConfig) -> None:
    config = talker_config(speakers={"Eric": 9}, languages={"Wu_Dialect": 7}, dialects={"Eric": "wu_dialect"})
    assert resolve_voice(config, "eric", "chinese", "") == Voice(9, 7, "", ())


def test_an_unknown_speaker_gets_the_nearest_name_and_the_list(talker_config: MakeConfig) -> None:
    with pytest.raises(RequestError, match=r"^field 'speaker' is 'Rayn', .* did you mean 'ryan'\? known: eric, ryan$"):
        resolve_voice(talker_config(), "Rayn", "", "")


def test_an_unknown_language_gets_the_nearest_name_and_the_list(talker_config: MakeConfig) -> None:
    expected = r"^field 'language' is 'Englisch', .* did you mean 'english'\? known: auto, chinese, english, russian, "
    with pytest.raises(RequestError, match=expected):
        resolve_voice(talker_config(), "ryan", "Englisch", "")


def test_a_name_near_to_nothing_still_gets_the_list(talker_config: MakeConfig) -> None:
    with pytest.raises(RequestError, match=r"'zzzz', which this checkpoint does not know; known: eric, ryan$"):
        resolve_voice(talker_config(), "zzzz", "", "")


def test_custom_voice_without_a_speaker_lists_the_speakers(talker_config: MakeConfig) -> None:
    with pytest.raises(RequestError, match=r"field 'speaker' is missing; .* one of: eric, ryan$"):
        resolve_voice(talker_config(), "", "english", "")


def test_voice_design_takes_its_voice_from_instruct(talker_config: MakeConfig) -> None:
    voice = resolve_voice(talker_config("voice_design"), "", "english", "A calm voice.")
    assert voice == Voice(None, 200, "A calm voice.", ())


def test_voice_design_refuses_a_speaker_and_says_what_to_write_instead(talker_config: MakeConfig) -> None:
    with pytest.raises(RequestError, match=r"field 'speaker' is 'ryan', .* describe the voice in 'instruct'"):
        resolve_voice(talker_config("voice_design"), "ryan", "", "A calm voice.")


def test_voice_design_without_instruct_warns(talker_config: MakeConfig) -> None:
    voice = resolve_voice(talker_config("voice_design"), "", "", "")
    assert (voice.speaker_id, voice.language_id, voice.instruct) == (None, None, "")
    assert len(voice.warnings) == 1
    assert "'instruct' is empty" in voice.warnings[0]


@pytest.mark.parametrize("model_type", ["base", "something_new"])
def test_a_checkpoint_that_clones_voices_is_refused_by_name(model_type: str, talker_config: MakeConfig) -> None:
    with pytest.raises(UnsupportedError, match=f"tts_model_type is '{model_type}'.*use a CustomVoice or VoiceDesign"):
        resolve_voice(talker_config(model_type), "ryan", "", "")


def test_the_small_custom_voice_drops_instruct_with_a_warning(talker_config: MakeConfig) -> None:
    voice = resolve_voice(talker_config(model_size="0b6"), "ryan", "", "Whisper.")
    assert voice.instruct == ""
    assert len(voice.warnings) == 1
    assert "'instruct' is ignored" in voice.warnings[0]


@pytest.mark.parametrize(("kind", "speaker"), [({"model_size": "1b7"}, "ryan"), ({"model_type": "voice_design"}, "")])
def test_larger_checkpoints_and_voice_design_keep_instruct(
    kind: dict[str, Any], speaker: str, talker_config: MakeConfig
) -> None:
    assert resolve_voice(talker_config(**kind), speaker, "", "Whisper.") == Voice(
        None if not speaker else 300, None, "Whisper.", ()
    )


def test_the_small_voice_design_keeps_instruct_as_the_reference_does(talker_config: MakeConfig) -> None:
    assert resolve_voice(talker_config("voice_design", "0b6"), "", "", "Whisper.").instruct == "Whisper."


def test_a_dialect_that_is_no_language_of_the_checkpoint_is_a_checkpoint_error(talker_config: MakeConfig) -> None:
    config = talker_config(languages={"english": 200, "chinese": 201})
    with pytest.raises(CheckpointError, match=r"dialect 'sichuan_dialect' of speaker 'eric'.*chinese, english"):
        resolve_voice(config, "eric", "chinese", "")


@pytest.mark.parametrize(("speaker", "name", "codec_id"), [("Ethan", "ethan", 302), ("AIDEN", "aiden", 303)])
def test_an_omni_speaker_is_found_without_regard_to_case(
    speaker: str, name: str, codec_id: int, omni_talker: MakeTalker
) -> None:
    assert resolve_omni_speaker(omni_talker(), speaker) == (name, codec_id)
    assert resolve_omni_speaker(omni_talker(speakers={name.title(): 7}), speaker) == (name, 7)


def test_without_a_name_the_omni_speaker_with_the_lowest_id_speaks(omni_talker: MakeTalker) -> None:
    assert resolve_omni_speaker(omni_talker(), "") == ("chelsie", 301)
    assert resolve_omni_speaker(omni_talker(speakers={"B": 9, "a": 10}), "") == ("b", 9)


def test_an_unknown_omni_speaker_gets_the_nearest_name_and_the_list(omni_talker: MakeTalker) -> None:
    with pytest.raises(
        RequestError, match=r"^field 'speaker' is 'Etan', .* did you mean 'ethan'\? known: aiden, chels"
    ):
        resolve_omni_speaker(omni_talker(), "Etan")


def test_an_omni_checkpoint_without_speakers_is_named(omni_talker: MakeTalker) -> None:
    with pytest.raises(CheckpointError, match=r"the Talker has no speakers \(talker_config\.speaker_id\)"):
        resolve_omni_speaker(omni_talker(speakers={}), "ethan")
