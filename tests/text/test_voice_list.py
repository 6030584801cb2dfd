from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from cpspec_trt.files.engine_config import OmniTalkerConfig, TalkerConfig
from cpspec_trt.text.voice_list import VoiceName, list_names
from cpspec_trt.text.voice_map import VOICE_MAP, VoiceMap
from cpspec_trt.text.voices import resolve_omni_speaker, resolve_voice

MakeConfig = Callable[..., TalkerConfig]
MakeTalker = Callable[..., OmniTalkerConfig]


def mapped(directory: Path, **names: str) -> VoiceMap:
    (directory / VOICE_MAP).write_text(json.dumps(names))
    return VoiceMap.read(directory)


def test_a_dialect_is_noted_at_its_speaker_and_at_the_language(tmp_path: Path, talker_config: MakeConfig) -> None:
    names = list_names(talker_config(), VoiceMap.read(tmp_path))
    assert VoiceName("speaker", "eric", "speaks sichuan_dialect if the language is auto or chinese") in names
    assert VoiceName("speaker", "ryan", "") in names
    assert VoiceName("language", "sichuan_dialect", "the dialect of eric; any speaker may be asked for it") in names
    assert VoiceName("language", "english", "") in names


def test_a_name_of_the_map_takes_the_dialect_of_its_speaker_along(tmp_path: Path, talker_config: MakeConfig) -> None:
    names = list_names(talker_config(), mapped(tmp_path, uncle="eric", eric="ryan"))
    notes = {found.name: found.note for found in names}
    assert notes["uncle"] == f"eric, by {VOICE_MAP}; speaks sichuan_dialect if the language is auto or chinese"
    assert notes["eric"] == f"ryan, by {VOICE_MAP}"


def test_every_name_of_the_list_is_one_that_a_request_may_give(tmp_path: Path, talker_config: MakeConfig) -> None:
    own = mapped(tmp_path, narrator="ryan")
    names = list_names(talker_config(), own)
    config = own.added_to(talker_config())
    for found in names:
        speaker, language = (found.name, "") if found.kind == "speaker" else ("ryan", found.name)
        assert resolve_voice(config, speaker, language, "").speaker_id is not None
    assert len(names) == len(config.speakers) + len(config.languages) + 1


def test_the_default_of_the_omni_list_is_who_speaks_without_a_name(tmp_path: Path, omni_talker: MakeTalker) -> None:
    config = omni_talker()
    names = list_names(config, VoiceMap.read(tmp_path))
    assert {found.kind for found in names} == {"speaker"}
    assert [found.name for found in names] == sorted(config.speakers)
    (default,) = (found.name for found in names if found.note == "the default")
    assert default == resolve_omni_speaker(config, "")[0]


def test_a_dialect_of_a_speaker_that_is_not_there_is_left_out(tmp_path: Path, talker_config: MakeConfig) -> None:
    config = talker_config(dialects={"gone": "sichuan_dialect"})
    notes = {found.name: found.note for found in list_names(config, VoiceMap.read(tmp_path)) if found.kind == "speaker"}
    assert notes == {"eric": "", "ryan": ""}
