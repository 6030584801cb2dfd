"""Every name that a request may give for a speaker or a language, and what is to be known about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cpspec_trt.files.engine_config import OmniTalkerConfig, TalkerConfig
from cpspec_trt.text.voice_map import VOICE_MAP, VoiceMap
from cpspec_trt.text.voices import AUTO_LANGUAGE, DIALECT_LANGUAGES


@dataclass(frozen=True, slots=True)
class VoiceName:
    """One name, in lower case; ``note`` may be empty."""

    kind: Literal["speaker", "language"]
    name: str
    note: str


def list_names(config: TalkerConfig | OmniTalkerConfig, own: VoiceMap) -> tuple[VoiceName, ...]:
    """Speakers by name, then languages, ``auto`` first; Qwen3-Omni has no languages to choose from.

    Args:
        config: the Talker's, without the names of the map.
        own: the map beside it.

    Raises:
        InputFileError: a name of the map stands for a speaker that the checkpoint does not have.
    """
    if isinstance(config, OmniTalkerConfig):
        speakers = own.added_to(config).speakers
        default = min(speakers.values(), default=None)
        return _speakers(
            {name.lower(): ["the default"] if id_ == default else [] for name, id_ in speakers.items()}, own
        )
    named = own.added_to(config)
    home = {name.lower(): dialect.lower() for name, dialect in named.dialects.items()}
    tied = " or ".join(DIALECT_LANGUAGES)
    notes = {name.lower(): list[str]() for name in named.speakers}
    for name in home.keys() & notes.keys():
        notes[name].append(f"speaks {home[name]} if the language is {tied}")
    languages = [VoiceName("language", AUTO_LANGUAGE, "the default")]
    for language in sorted(name.lower() for name in named.languages):
        natives = ", ".join(sorted(name for name, dialect in home.items() if dialect == language))
        note = f"the dialect of {natives}; any speaker may be asked for it" if natives else ""
        languages.append(VoiceName("language", language, note))
    return (*_speakers(notes, own), *languages)


def _speakers(notes: dict[str, list[str]], own: VoiceMap) -> tuple[VoiceName, ...]:
    def note(name: str) -> str:
        behind = [f"{own.names[name]}, by {VOICE_MAP}"] if name in own.names else []
        return "; ".join([*behind, *notes[name]])

    return tuple(VoiceName("speaker", name, note(name)) for name in sorted(notes))
