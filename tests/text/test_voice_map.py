from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cpspec_trt.errors import InputFileError
from cpspec_trt.files.engine_config import OmniTalkerConfig, TalkerConfig
from cpspec_trt.text.voice_map import VOICE_MAP, VoiceMap
from cpspec_trt.text.voices import Voice, resolve_omni_speaker, resolve_voice

MakeConfig = Callable[..., TalkerConfig]
MakeTalker = Callable[..., OmniTalkerConfig]
# Ids of the golden config: ryan 300, eric 301 (sichuan_dialect 202), english 200, chinese 201


def written(directory: Path, content: object) -> VoiceMap:
    (directory / VOICE_MAP).write_text(content if isinstance(content, str) else json.dumps(content))
    return VoiceMap.read(directory)


def test_without_a_file_the_speakers_are_those_of_the_checkpoint(tmp_path: Path, talker_config: MakeConfig) -> None:
    config = talker_config()
    assert VoiceMap.read(tmp_path).added_to(config) is config


@pytest.mark.parametrize("speaker", ["narrator", "NARRATOR", "ryan"])
def test_a_name_of_the_map_is_its_speaker_without_regard_to_case(
    speaker: str, tmp_path: Path, talker_config: MakeConfig
) -> None:
    config = written(tmp_path, {"Narrator": "RYAN"}).added_to(talker_config())
    assert resolve_voice(config, speaker, "english", "") == Voice(300, 200, "", ())


def test_the_dialect_of_the_speaker_goes_with_the_name(tmp_path: Path, talker_config: MakeConfig) -> None:
    config = written(tmp_path, {"uncle": "eric"}).added_to(talker_config())
    assert resolve_voice(config, "uncle", "auto", "") == Voice(301, 202, "", ())


def test_a_name_of_the_map_wins_over_a_speaker_and_takes_its_dialect_away(
    tmp_path: Path, talker_config: MakeConfig
) -> None:
    config = written(tmp_path, {"eric": "ryan", "uncle": "eric"}).added_to(talker_config())
    assert resolve_voice(config, "eric", "chinese", "") == Voice(300, 201, "", ())
    assert resolve_voice(config, "uncle", "chinese", "") == Voice(301, 202, "", ())


def test_a_name_of_the_map_is_an_omni_speaker_too(tmp_path: Path, omni_talker: MakeTalker) -> None:
    config = written(tmp_path, {"host": "ethan"}).added_to(omni_talker())
    assert resolve_omni_speaker(config, "Host") == ("host", 302)


def test_a_speaker_the_checkpoint_lacks_is_named_with_the_nearest_one(
    tmp_path: Path, talker_config: MakeConfig
) -> None:
    expected = rf"{VOICE_MAP}: 'narrator' is 'rayn', .* did you mean 'ryan'\? known: eric, ryan$"
    with pytest.raises(InputFileError, match=expected):
        written(tmp_path, {"narrator": "rayn"}).added_to(talker_config())


def test_a_map_beside_a_voice_design_checkpoint_is_refused(tmp_path: Path, talker_config: MakeConfig) -> None:
    config = talker_config("voice_design", speakers={})
    with pytest.raises(InputFileError, match="has no named speakers; remove the file"):
        written(tmp_path, {"narrator": "ryan"}).added_to(config)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"narrator": 3}, "'narrator' is 3; write a name and the speaker"),
        ({"narrator": None}, "'narrator' is None; write"),
        ({"narrator": {"speaker": "ryan"}}, "'narrator' is {'speaker': 'ryan'}; write"),
        ({"narrator": " "}, "'narrator' is ' '; write"),
        ({"": "ryan"}, "'' is 'ryan'; write"),
        ({"Narrator": "ryan", "narrator": "eric"}, "the name 'narrator' stands twice"),
        (["ryan"], "the voice map must be a JSON object, found a list"),
        ('{"narrator": "ryan"', "not JSON"),
        ('{"a": "ryan", "a": "eric"}', "the key 'a' stands twice"),
    ],
)
def test_a_damaged_map_is_one_line_with_the_file(tmp_path: Path, content: object, expected: str) -> None:
    with pytest.raises(InputFileError) as caught:
        written(tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path / VOICE_MAP}: ")
    assert expected in str(caught.value)


def test_a_link_to_nothing_is_no_missing_map(tmp_path: Path) -> None:
    (tmp_path / VOICE_MAP).symlink_to(tmp_path / "gone.json")
    with pytest.raises(InputFileError, match="does not exist"):
        VoiceMap.read(tmp_path)
