"""From a checkpoint to ONNX directories: graphs, weights, configs, sidecars and tokenizer files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from cpspec_trt.checkpoint.family import QWEN3_OMNI
from cpspec_trt.checkpoint.qwen3_omni import has_audio_output
from cpspec_trt.checkpoint.reader import COMPANION_FILES, Checkpoint, open_checkpoint
from cpspec_trt.errors import UsageError
from cpspec_trt.files.atomic import atomic_directory
from cpspec_trt.files.engine_config import to_json
from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.files.placement import (
    CONFIG_NAME,
    EXPORT,
    MODEL_NAME,
    check_replaceable,
    keep_foreign_files,
    written_to,
)
from cpspec_trt.files.sidecars import ALL_SIDECARS
from cpspec_trt.graphs.component import Component
from cpspec_trt.graphs.omni_components import omni_components
from cpspec_trt.graphs.tts_components import tts_components

#: Component -> its directory in an export of Qwen3-TTS. The reference system calls the Talker's ``llm``.
DIRECTORIES: Mapping[str, str] = MappingProxyType(
    {"talker": "llm", "code_predictor": "code_predictor", "code2wav": "code2wav"}
)
#: The same of Qwen3-Omni.
OMNI_DIRECTORIES: Mapping[str, str] = MappingProxyType(
    {"thinker": "thinker", "talker": "talker", "code_predictor": "code_predictor", "code2wav": "code2wav"}
)
_WRITTEN = frozenset({MODEL_NAME, f"{MODEL_NAME}.data", CONFIG_NAME, *ALL_SIDECARS, *COMPANION_FILES})


def directories_of(checkpoint: Checkpoint) -> Mapping[str, str]:
    """The components a checkpoint has, each with the name of its directory in an export.

    Raises:
        CheckpointError: the configuration does not tell.
    """
    if checkpoint.family != QWEN3_OMNI:
        return DIRECTORIES
    return OMNI_DIRECTORIES if has_audio_output(checkpoint) else MappingProxyType({"thinker": "thinker"})


def read_components(checkpoint: Checkpoint, fingerprint: str) -> dict[str, Component]:
    """Every component of a checkpoint, so that an export of one refuses a checkpoint whose parts do not fit together.

    Raises:
        CheckpointError: a configuration value or a tensor is missing, damaged, or does not fit the others.
        UnsupportedError: a kind of checkpoint or a feature that this release does not implement.
    """
    read = omni_components if checkpoint.family == QWEN3_OMNI else tts_components
    return read(checkpoint, fingerprint)


def export_checkpoint(
    checkpoint: Path,
    onnx_dir: Path,
    components: Sequence[str] | None = None,
    progress: Callable[[str], None] = lambda line: None,
    shown: Path | None = None,
) -> dict[str, Path]:
    """Write one directory per component into ``onnx_dir``, each swapped in as a whole.

    Everything is checked before the first byte is written. Files that no export wrote are kept. Memory stays
    near the largest single tensor as float32, whatever the size of the checkpoint.

    Args:
        checkpoint: a Qwen3-TTS CustomVoice or VoiceDesign checkpoint, or a Qwen3-Omni checkpoint.
        onnx_dir: made if needed; components that are not selected are left as they are.
        components: names from ``directories_of``; None takes all.
        progress: called with one line per component.
        shown: the place that an error names if the export cannot be written, where ``onnx_dir`` is a temporary one.

    Returns:
        The directory of each component written, in order.

    Raises:
        CheckpointError: a file, a configuration value or a tensor is missing or damaged.
        UnsupportedError: a kind of checkpoint or a feature that this release does not implement.
        UsageError: an unknown component, or a directory that must not be replaced.
        EngineError: the export cannot be written.
    """
    opened = open_checkpoint(checkpoint)
    directories = directories_of(opened)
    targets = _targets(onnx_dir, directories, tuple(directories) if components is None else components)
    found = read_components(opened, opened.fingerprint())
    for name, directory in targets.items():
        progress(f"exporting {name}")
        with written_to(shown or directory, "export"), atomic_directory(directory) as new:
            found[name].author.save(new / MODEL_NAME)
            found[name].write_companions(new)
            write_json_atomic(new / CONFIG_NAME, to_json(found[name].config))
            keep_foreign_files(directory, new, EXPORT, _WRITTEN)
    return targets


def _targets(onnx_dir: Path, directories: Mapping[str, str], components: Sequence[str]) -> dict[str, Path]:
    targets = {}
    for component in components:
        if component not in directories:
            fault = "is not in this checkpoint" if component in OMNI_DIRECTORIES else "is unknown"
            raise UsageError(f"component {component!r} {fault}; choose from {', '.join(directories)}")
        directory = onnx_dir / directories[component]
        with written_to(directory, "export"):
            check_replaceable(directory, EXPORT)
        targets[component] = directory
    if not targets:
        raise UsageError(f"no component is selected; choose from {', '.join(directories)}")
    return targets
