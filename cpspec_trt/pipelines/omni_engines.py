"""The engines of Qwen3-Omni: the Thinker, and the set that speaks if audio is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cpspec_trt.engines.environment import check_fits_together
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import OmniTalkerConfig, ThinkerConfig, read_config_of
from cpspec_trt.files.manifest import Manifest
from cpspec_trt.pipelines.engine_set import (
    BUILD_TOGETHER,
    SpeechConfigs,
    SpeechDirectories,
    check_omni,
    check_same_checkpoint,
    locate,
    read_checked_manifest,
    require_directory,
)


@dataclass(frozen=True, slots=True)
class OmniDirectories:
    """Where each part lies; ``speech`` is None for text only."""

    thinker: Path
    speech: SpeechDirectories | None


@dataclass(frozen=True, slots=True)
class OmniConfigs:
    """The checked configurations; ``talker`` and ``speech`` are None for text only."""

    thinker: ThinkerConfig
    thinker_manifest: Manifest
    talker: OmniTalkerConfig | None
    speech: SpeechConfigs | None


def locate_omni(root: Path, audio: bool = True) -> OmniDirectories:
    """The directories below one root: thinker, talker, code_predictor, code2wav (or multimodal/code2wav).

    Raises:
        EngineError: a directory does not exist.
    """
    thinker = require_directory(root / "thinker", "thinker")
    return OmniDirectories(thinker, locate(root / "talker", None) if audio else None)


def check_engines(directories: OmniDirectories) -> OmniConfigs:
    """Read every config and manifest and compare what must agree.

    Raises:
        EngineError: a file is missing or damaged, the components do not belong together, or they do not fit into the
            GPU's memory together.
    """
    thinker = read_config_of(directories.thinker, ThinkerConfig)
    manifest = read_checked_manifest(directories.thinker, thinker)
    if directories.speech is None:
        return OmniConfigs(thinker, manifest, None, None)
    if not thinker.enable_audio_output:
        raise EngineError(
            f"{directories.thinker / 'config.json'}: enable_audio_output is false, this checkpoint cannot speak; "
            "run it without audio output"
        )
    speech, talker = check_omni(directories.speech)
    if talker.thinker_hidden_size != thinker.decoder.hidden_size:
        raise EngineError(
            f"{directories.speech.talker / 'config.json'}: thinker_hidden_size is {talker.thinker_hidden_size}, "
            f"the Thinker in {directories.thinker} has {thinker.decoder.hidden_size}; {BUILD_TOGETHER}"
        )
    check_same_checkpoint(directories.thinker, thinker.checkpoint_fingerprint, directories.speech.talker, talker)
    check_fits_together((directories.thinker, *directories.speech.present()))
    return OmniConfigs(thinker, manifest, talker, speech)
