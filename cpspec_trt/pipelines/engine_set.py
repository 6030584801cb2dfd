"""The engines that speak (Talker, CodePredictor, code2wav): found, checked against one another, then opened.

All checks read small JSON files and come before the first engine is loaded, so a wrong directory
costs a second, not a model load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cpspec_trt.devices.device import Device
from cpspec_trt.engines.environment import check_fits_together, check_runnable
from cpspec_trt.engines.loading import AnyEngine, device_for, open_engine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import (
    AnyCode2WavConfig,
    Code2WavConfig,
    CodePredictorConfig,
    ComponentConfig,
    OmniCode2WavConfig,
    OmniTalkerConfig,
    TalkerConfig,
    read_config_of,
)
from cpspec_trt.files.manifest import Manifest, read_manifest
from cpspec_trt.files.sidecars import CodePredictorTables, TalkerTables, read_code_predictor_sidecars
from cpspec_trt.sampling.talker import CONTROL_CODES
from cpspec_trt.text.voice_map import read_talker

BUILD_TOGETHER = "build all components together with cpspec-build --checkpoint"


@dataclass(frozen=True, slots=True)
class SpeechDirectories:
    """Where each part lies. ``code2wav`` is None when no audio is wanted."""

    talker: Path
    code_predictor: Path
    code2wav: Path | None

    def present(self) -> tuple[Path, ...]:
        """Every one there is."""
        parts = (self.talker, self.code_predictor, self.code2wav)
        return tuple(path for path in parts if path is not None)


@dataclass(frozen=True, slots=True)
class SpeechConfigs:
    """The checked configurations of a set, and the Talker's manifest."""

    talker: TalkerConfig | OmniTalkerConfig
    code_predictor: CodePredictorConfig
    code2wav: AnyCode2WavConfig | None
    talker_manifest: Manifest


@dataclass(frozen=True, slots=True)
class SpeechEngines:
    """Opened engines with their sidecars, and the device they share where they need one."""

    configs: SpeechConfigs
    talker: AnyEngine
    code_predictor: AnyEngine
    code2wav: AnyEngine | None
    talker_tables: TalkerTables
    code_predictor_tables: CodePredictorTables
    device: Device | None


def locate(talker: Path, code2wav: Path | None, audio: bool = True) -> SpeechDirectories:
    """Directories by the reference's rules: the CodePredictor is the talker's sibling, and so is code2wav by default.

    Args:
        talker: the Talker's engine directory.
        code2wav: its directory, or None for the sibling, else ``multimodal/code2wav`` beside the talker.
        audio: False leaves code2wav out.

    Raises:
        EngineError: a directory does not exist.
    """
    require_directory(talker, "talker")
    if not (talker / "config.json").exists():
        raise EngineError(f"{talker / 'config.json'}: does not exist; pass the directory of the talker engine itself")
    root = talker.resolve().parent
    code_predictor = require_directory(root / "code_predictor", "CodePredictor")
    if not audio:
        return SpeechDirectories(talker, code_predictor, None)
    if code2wav is None:
        nested = root / "multimodal" / "code2wav"
        code2wav = nested if nested.is_dir() and not (root / "code2wav").is_dir() else root / "code2wav"
    return SpeechDirectories(talker, code_predictor, require_directory(code2wav, "code2wav"))


def require_directory(path: Path, what: str) -> Path:
    """Return ``path`` if it is a directory.

    Raises:
        EngineError: it is not.
    """
    if not path.is_dir():
        raise EngineError(f"{path}: the {what} engine directory does not exist; {BUILD_TOGETHER}")
    return path


def check_tts(directories: SpeechDirectories) -> tuple[SpeechConfigs, TalkerConfig]:
    """Read every config and manifest of a Qwen3-TTS set and compare what must agree.

    Raises:
        InputFileError: the Talker's ``voice_map.json`` is damaged or names a speaker there is not.
        EngineError: a file is missing or damaged, the components do not belong together, or they do not fit into the
            GPU's memory together.
    """
    talker = read_talker(directories.talker, TalkerConfig)
    wav = read_config_of(directories.code2wav, Code2WavConfig) if directories.code2wav else None
    configs = _checked(directories, talker, wav)
    check_fits_together(directories.present())
    return configs, talker


def check_omni(directories: SpeechDirectories) -> tuple[SpeechConfigs, OmniTalkerConfig]:
    """As ``check_tts``, for Qwen3-Omni, but not whether they fit into memory together: the Thinker belongs to that."""
    talker = read_talker(directories.talker, OmniTalkerConfig)
    wav = read_config_of(directories.code2wav, OmniCode2WavConfig) if directories.code2wav else None
    return _checked(directories, talker, wav), talker


def open_speech(
    directories: SpeechDirectories, configs: SpeechConfigs, tables: Callable[[], TalkerTables], threads: int | None
) -> SpeechEngines:
    """Load sidecars and engines.

    Args:
        directories: where they lie.
        configs: from ``check_tts`` or ``check_omni``.
        tables: reads the Talker's tables, which differ between the families.
        threads: threads inside one engine pass; None takes every core.

    Raises:
        EngineError: a sidecar or an engine is missing or damaged.
    """
    talker_tables = tables()
    predictor_tables = read_code_predictor_sidecars(directories.code_predictor, configs.code_predictor)
    wav = directories.code2wav
    if configs.code2wav is not None:
        largest = max(predictor_tables.lm_heads.shape[1], configs.talker.decoder.vocab_size - CONTROL_CODES)
        if largest > configs.code2wav.codebook_size:
            raise EngineError(
                f"{wav}: its codebooks have {configs.code2wav.codebook_size} entries, "
                f"the Talker and CodePredictor produce {largest} codes; {BUILD_TOGETHER}"
            )
    device = device_for(directories.present())
    try:
        return SpeechEngines(
            configs=configs,
            talker=open_engine(directories.talker, threads, device),
            code_predictor=open_engine(directories.code_predictor, threads, device),
            code2wav=open_engine(wav, threads, device) if wav is not None else None,
            talker_tables=talker_tables,
            code_predictor_tables=predictor_tables,
            device=device,
        )
    except BaseException:
        if device is not None:
            device.close()
        raise


def read_checked_manifest(directory: Path, config: ComponentConfig) -> Manifest:
    """The manifest of a directory whose config was read already.

    Raises:
        EngineError: it is damaged, config and manifest are of different builds, or the engine cannot run here.
    """
    manifest = read_manifest(directory)
    if manifest.model != config.model or manifest.checkpoint_fingerprint != config.checkpoint_fingerprint:
        raise EngineError(f"{directory}: its config and manifest are of different builds; {BUILD_TOGETHER}")
    check_runnable(directory, manifest)
    return manifest


def check_same_checkpoint(first: Path, fingerprint: str, second: Path, other: ComponentConfig) -> None:
    """Refuse two components that were exported from different checkpoints.

    Raises:
        EngineError: names both directories.
    """
    if other.checkpoint_fingerprint != fingerprint:
        raise EngineError(f"{second} and {first} come from different checkpoints; {BUILD_TOGETHER}")


def _checked(
    directories: SpeechDirectories, talker: TalkerConfig | OmniTalkerConfig, wav: AnyCode2WavConfig | None
) -> SpeechConfigs:
    predictor = read_config_of(directories.code_predictor, CodePredictorConfig)
    _agree(directories, "num_code_groups", talker.num_code_groups, predictor.num_code_groups)
    _agree(directories, "talker hidden size", talker.decoder.hidden_size, predictor.talker_hidden_size)
    talker_manifest = read_checked_manifest(directories.talker, talker)
    read_checked_manifest(directories.code_predictor, predictor)
    fingerprint = talker.checkpoint_fingerprint
    check_same_checkpoint(directories.talker, fingerprint, directories.code_predictor, predictor)
    if wav is not None and directories.code2wav is not None:
        read_checked_manifest(directories.code2wav, wav)
        check_same_checkpoint(directories.talker, fingerprint, directories.code2wav, wav)
        if wav.num_quantizers != talker.num_code_groups:
            raise EngineError(
                f"{directories.code2wav / 'config.json'}: num_quantizers is {wav.num_quantizers}, "
                f"the Talker has {talker.num_code_groups} code groups; {BUILD_TOGETHER}"
            )
    return SpeechConfigs(talker, predictor, wav, talker_manifest)


def _agree(directories: SpeechDirectories, what: str, talker: int, predictor: int) -> None:
    if talker != predictor:
        raise EngineError(
            f"{directories.code_predictor / 'config.json'}: {what} is {predictor}, "
            f"{directories.talker / 'config.json'} says {talker}; {BUILD_TOGETHER}"
        )
