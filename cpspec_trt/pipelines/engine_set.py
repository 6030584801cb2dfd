"""The engines of one voice: found, checked against one another, then opened.

All checks read small JSON files and come before the first engine is loaded, so a wrong directory
costs a second, not a model load.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cpspec_trt.engines.engine import Engine
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.errors import EngineError, UnsupportedError
from cpspec_trt.files.engine_config import (
    Code2WavConfig,
    CodePredictorConfig,
    TalkerConfig,
    read_config_of,
)
from cpspec_trt.files.manifest import Manifest, read_manifest
from cpspec_trt.files.sidecars import (
    CodePredictorTables,
    TalkerTables,
    read_code_predictor_sidecars,
    read_talker_sidecars,
)

_BUILD = "build all components together with cpspec-build --checkpoint"


@dataclass(frozen=True, slots=True)
class EngineDirectories:
    """Where each part lies. ``code2wav`` is None when no audio is wanted."""

    talker: Path
    code_predictor: Path
    code2wav: Path | None
    tokenizer: Path


@dataclass(frozen=True, slots=True)
class EngineConfigs:
    """The checked configurations and manifests of a set."""

    talker: TalkerConfig
    code_predictor: CodePredictorConfig
    code2wav: Code2WavConfig | None
    talker_manifest: Manifest
    code_predictor_manifest: Manifest


@dataclass(frozen=True, slots=True)
class EngineSet:
    """Opened engines with their sidecars."""

    configs: EngineConfigs
    talker: Engine
    code_predictor: Engine
    code2wav: Engine | None
    talker_tables: TalkerTables
    code_predictor_tables: CodePredictorTables


def locate(talker: Path, code2wav: Path | None, tokenizer: Path | None, audio: bool = True) -> EngineDirectories:
    """Directories by the reference's rules: the CodePredictor is the talker's sibling, and so is code2wav by default.

    Args:
        talker: the Talker's engine directory.
        code2wav: its directory, or None for the sibling.
        tokenizer: where the tokenizer's files are; None looks in the talker directory, then in its parent.
        audio: False leaves code2wav out.

    Raises:
        EngineError: a directory does not exist.
    """
    if not talker.is_dir():
        raise EngineError(f"{talker}: the talker engine directory does not exist; {_BUILD}")
    root = talker.resolve().parent
    code_predictor = root / "code_predictor"
    wav = (code2wav or root / "code2wav") if audio else None
    for directory, what in ((code_predictor, "CodePredictor"), (wav, "code2wav")):
        if directory is not None and not directory.is_dir():
            raise EngineError(f"{directory}: the {what} engine directory does not exist; {_BUILD}")
    if tokenizer is None:
        inside = any((talker / name).is_file() for name in ("tokenizer.json", "vocab.json"))
        tokenizer = talker if inside else root
    return EngineDirectories(talker, code_predictor, wav, tokenizer)


def check(directories: EngineDirectories) -> EngineConfigs:
    """Read every config and manifest of a set and compare what must agree.

    Raises:
        EngineError: a file is missing or damaged, or the components do not belong together.
        UnsupportedError: a kind of checkpoint this release does not speak with.
    """
    talker = read_config_of(directories.talker, TalkerConfig)
    predictor = read_config_of(directories.code_predictor, CodePredictorConfig)
    wav = read_config_of(directories.code2wav, Code2WavConfig) if directories.code2wav else None
    if talker.model_type not in ("custom_voice", "voice_design"):
        raise UnsupportedError(
            f"{directories.talker}: a {talker.model_type!r} checkpoint needs voice cloning, which is not supported; "
            "use a CustomVoice or VoiceDesign checkpoint"
        )
    _agree(directories, "num_code_groups", talker.num_code_groups, predictor.num_code_groups)
    _agree(directories, "talker hidden size", talker.decoder.hidden_size, predictor.talker_hidden_size)
    talker_manifest = _manifest(directories.talker, talker)
    predictor_manifest = _manifest(directories.code_predictor, predictor)
    if wav is not None and directories.code2wav is not None:
        _manifest(directories.code2wav, wav)
        if wav.num_quantizers != talker.num_code_groups:
            raise EngineError(
                f"{directories.code2wav / 'config.json'}: num_quantizers is {wav.num_quantizers}, "
                f"the Talker has {talker.num_code_groups} code groups; {_BUILD}"
            )
    configs = EngineConfigs(talker, predictor, wav, talker_manifest, predictor_manifest)
    _check_same_checkpoint(directories, configs)
    return configs


def open_set(directories: EngineDirectories, configs: EngineConfigs, threads: int | None) -> EngineSet:
    """Load sidecars and engines.

    Raises:
        EngineError: a sidecar or an engine is missing or damaged.
    """
    talker_tables = read_talker_sidecars(directories.talker, configs.talker)
    predictor_tables = read_code_predictor_sidecars(directories.code_predictor, configs.code_predictor)
    wav = directories.code2wav
    if configs.code2wav is not None and predictor_tables.lm_heads.shape[1] > configs.code2wav.codebook_size:
        raise EngineError(
            f"{wav}: the codebook has {configs.code2wav.codebook_size} entries, "
            f"the CodePredictor produces {predictor_tables.lm_heads.shape[1]}; {_BUILD}"
        )
    return EngineSet(
        configs=configs,
        talker=open_engine(directories.talker, threads),
        code_predictor=open_engine(directories.code_predictor, threads),
        code2wav=open_engine(wav, threads) if wav is not None else None,
        talker_tables=talker_tables,
        code_predictor_tables=predictor_tables,
    )


def _manifest(directory: Path, config: TalkerConfig | CodePredictorConfig | Code2WavConfig) -> Manifest:
    manifest = read_manifest(directory)
    if manifest.model != config.model or manifest.checkpoint_fingerprint != config.checkpoint_fingerprint:
        raise EngineError(f"{directory}: config.json and engine_manifest.json belong to different builds; {_BUILD}")
    return manifest


def _agree(directories: EngineDirectories, what: str, talker: int, predictor: int) -> None:
    if talker != predictor:
        raise EngineError(
            f"{directories.code_predictor / 'config.json'}: {what} is {predictor}, "
            f"{directories.talker / 'config.json'} says {talker}; {_BUILD}"
        )


def _check_same_checkpoint(directories: EngineDirectories, configs: EngineConfigs) -> None:
    expected = configs.talker.checkpoint_fingerprint
    parts = [(directories.code_predictor, configs.code_predictor), (directories.code2wav, configs.code2wav)]
    for directory, config in parts:
        if config is not None and config.checkpoint_fingerprint != expected:
            raise EngineError(f"{directory} and {directories.talker} come from different checkpoints; {_BUILD}")
