"""Who speaks, in which language: speaker, language and instruct of a request against the Talker's config.

Names are compared without regard to case. What the three kinds of Qwen3-TTS checkpoint accept:

============== ======================= ====================================================
kind           speaker                 instruct
============== ======================= ====================================================
custom_voice   required, from the list optional; dropped with a warning by the 0.6B model
voice_design   refused                 describes the voice; empty is allowed with a warning
base           (clones a recording: not supported)
============== ======================= ====================================================

Qwen3-Omni has a list of speakers and neither language nor instruct.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cpspec_trt.errors import CheckpointError, RequestError, UnsupportedError
from cpspec_trt.files.engine_config import OmniTalkerConfig, TalkerConfig

AUTO_LANGUAGE = "auto"
CUSTOM_VOICE, VOICE_DESIGN, BASE = "custom_voice", "voice_design", "base"
SIZE_WITHOUT_INSTRUCT = "0b6"
DIALECT_LANGUAGES = (AUTO_LANGUAGE, "chinese")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Voice:
    """A resolved voice.

    Attributes:
        speaker_id: codec id of the speaker, None for VoiceDesign.
        language_id: codec id of the language or dialect, None for automatic.
        instruct: the instruction that takes effect, "" for none.
        warnings: what was changed or will surprise, one sentence each.
    """

    speaker_id: int | None
    language_id: int | None
    instruct: str
    warnings: tuple[str, ...]


def resolve_voice(config: TalkerConfig, speaker: str, language: str, instruct: str) -> Voice:
    """Resolve the names of one request; "" means not given, and language "" means automatic.

    A speaker whose home is a dialect speaks it when the language is automatic or Chinese. Dialects may
    also be asked for by name, with any speaker.

    Raises:
        RequestError: an unknown name (the message gives the nearest one and the list), no speaker for
            CustomVoice, a speaker for VoiceDesign.
        UnsupportedError: the checkpoint is neither CustomVoice nor VoiceDesign.
        CheckpointError: a speaker's dialect is not among the languages.
    """
    if config.model_type not in (CUSTOM_VOICE, VOICE_DESIGN):
        raise UnsupportedError(
            f"tts_model_type is {config.model_type!r}: only {CUSTOM_VOICE} and {VOICE_DESIGN} checkpoints can speak "
            "here, voice cloning is not supported; use a CustomVoice or VoiceDesign checkpoint"
        )
    name, speaker_id = _speaker(config, speaker)
    effective, warnings = _instruct(config, instruct)
    return Voice(speaker_id, _language_id(config, name, language), effective, warnings)


def resolve_omni_speaker(config: OmniTalkerConfig, speaker: str) -> tuple[str, int]:
    """The name, in lower case, and the codec id of a Qwen3-Omni speaker.

    "" means not given: then the speaker with the lowest id speaks, as in TensorRT Edge-LLM (of the published
    checkpoint that is chelsie).

    Raises:
        RequestError: an unknown name (the message gives the nearest one and the list).
        CheckpointError: the checkpoint has no speakers.
    """
    if not config.speakers:
        raise CheckpointError(
            "config.json: the Talker has no speakers (talker_config.speaker_id); the checkpoint is incomplete"
        )
    return _named_speaker(config.speakers, speaker or min(config.speakers, key=config.speakers.__getitem__))


def _speaker(config: TalkerConfig, speaker: str) -> tuple[str, int | None]:
    if config.model_type == VOICE_DESIGN:
        if speaker:
            raise RequestError(
                f"field 'speaker' is {speaker!r}, but a VoiceDesign checkpoint has no named speakers; "
                "remove it and describe the voice in 'instruct'"
            )
        return "", None
    if not speaker:
        known = _listed(_lowered(config.speakers))
        raise RequestError(f"field 'speaker' is missing; a CustomVoice checkpoint needs one of: {known}")
    return _named_speaker(config.speakers, speaker)


def _named_speaker(speakers: Mapping[str, int], speaker: str) -> tuple[str, int]:
    known = _lowered(speakers)
    name = speaker.lower()
    if name not in known:
        raise RequestError(unknown_name("field 'speaker'", speaker, known))
    return name, known[name]


def _language_id(config: TalkerConfig, speaker: str, language: str) -> int | None:
    known = _lowered(config.languages)
    name = language.lower() or AUTO_LANGUAGE
    dialect = _lowered(config.dialects).get(speaker)
    if dialect is not None and name in DIALECT_LANGUAGES:
        name = dialect.lower()
        if name not in known:
            raise CheckpointError(
                f"config.json: the dialect {dialect!r} of speaker {speaker!r} is not among the languages "
                f"({_listed(known)}); the checkpoint's codec_language_id is incomplete"
            )
    if name == AUTO_LANGUAGE:
        return None
    if name not in known:
        raise RequestError(unknown_name("field 'language'", language, [AUTO_LANGUAGE, *known]))
    return known[name]


def _instruct(config: TalkerConfig, instruct: str) -> tuple[str, tuple[str, ...]]:
    if config.model_type == CUSTOM_VOICE and config.model_size == SIZE_WITHOUT_INSTRUCT and instruct:
        return "", (
            "field 'instruct' is ignored: the 0.6B CustomVoice checkpoint (tts_model_size 0b6) takes no instructions",
        )
    if config.model_type == VOICE_DESIGN and not instruct:
        return "", ("field 'instruct' is empty: a VoiceDesign checkpoint then picks a voice of its own",)
    return instruct, ()


def _lowered(mapping: Mapping[str, _Value]) -> dict[str, _Value]:
    return {name.lower(): value for name, value in mapping.items()}


def unknown_name(what: str, value: str, known: Iterable[str]) -> str:
    """The message about a name the checkpoint does not have: what it stands for, the nearest one, the list."""
    nearest = difflib.get_close_matches(value.lower(), list(known), n=1)
    hint = f", did you mean {nearest[0]!r}?" if nearest else ";"
    return f"{what} is {value!r}, which this checkpoint does not know{hint} known: {_listed(known)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
