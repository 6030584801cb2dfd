"""From a checkpoint to ONNX directories: graphs, weights, configs, sidecars and tokenizer files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from cpspec_trt.checkpoint.qwen3_tts import read_code2wav_config, read_code_predictor_config, read_talker_config
from cpspec_trt.checkpoint.reader import Checkpoint, open_checkpoint
from cpspec_trt.errors import CheckpointError, UsageError
from cpspec_trt.files import sidecars
from cpspec_trt.files.atomic import atomic_directory
from cpspec_trt.files.engine_config import (
    Code2WavConfig,
    CodePredictorConfig,
    ComponentConfig,
    TalkerConfig,
    to_json,
)
from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.files.tensors import TensorSet, TensorSource
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.code2wav import author_code2wav
from cpspec_trt.graphs.code_predictor import author_code_predictor
from cpspec_trt.graphs.talker import author_talker

#: Component -> its directory in an export. The reference system calls the Talker's ``llm``.
DIRECTORIES: Mapping[str, str] = MappingProxyType(
    {"talker": "llm", "code_predictor": "code_predictor", "code2wav": "code2wav"}
)
GRAPH_NAME = "model.onnx"


@dataclass(frozen=True, slots=True)
class _Plan:
    """One component, checked and ready to be written."""

    config: ComponentConfig
    author: GraphAuthor
    write_companions: Callable[[Path], None]


def export_checkpoint(checkpoint: Path, onnx_dir: Path, components: Sequence[str]) -> dict[str, Path]:
    """Write ``<onnx_dir>/{llm,code_predictor,code2wav}``, each swapped in as a whole.

    Everything is checked before the first byte is written. Memory stays near the largest single
    tensor, whatever the size of the checkpoint.

    Args:
        checkpoint: a Qwen3-TTS CustomVoice or VoiceDesign checkpoint.
        onnx_dir: made if needed; components that are not selected are left as they are.
        components: names from ``DIRECTORIES``.

    Returns:
        The directory of each component written, in order.

    Raises:
        CheckpointError: a file, a configuration value or a tensor is missing or damaged.
        UnsupportedError: a Base checkpoint, or a feature this release does not implement.
        UsageError: an unknown component, or ``onnx_dir`` holds something that is no export.
    """
    targets = _targets(onnx_dir, components)
    opened = open_checkpoint(checkpoint)
    fingerprint = opened.fingerprint()
    plans = _plans(opened, fingerprint)
    for component, directory in targets.items():
        plan = plans[component]
        with atomic_directory(directory) as new:
            plan.author.save(new / GRAPH_NAME)
            plan.write_companions(new)
            write_json_atomic(new / "config.json", to_json(plan.config))
    return targets


def _targets(onnx_dir: Path, components: Sequence[str]) -> dict[str, Path]:
    targets = {}
    for component in components:
        if component not in DIRECTORIES:
            known = ", ".join(DIRECTORIES)
            raise UsageError(f"component {component!r} is unknown; choose from {known}")
        directory = onnx_dir / DIRECTORIES[component]
        _check_replaceable(directory)
        targets[component] = directory
    if not targets:
        raise UsageError(f"no component is selected; choose from {', '.join(DIRECTORIES)}")
    return targets


def _check_replaceable(directory: Path) -> None:
    """Refuse to swap out a directory that some other program or person filled."""
    for parent in (directory, *directory.parents):
        if parent.exists() and not parent.is_dir():
            raise UsageError(f"{parent}: is a file, so {directory} cannot be made; choose another ONNX_DIR")
    if directory.is_dir() and any(directory.iterdir()) and not (directory / GRAPH_NAME).is_file():
        raise UsageError(f"{directory}: holds something else than an export; choose another ONNX_DIR or remove it")


def _plans(checkpoint: Checkpoint, fingerprint: str) -> dict[str, _Plan]:
    """All three components, so that an export of one refuses a checkpoint whose parts do not fit together."""
    talker = read_talker_config(checkpoint, fingerprint)
    predictor = read_code_predictor_config(checkpoint, fingerprint)
    decoder = read_code2wav_config(checkpoint, fingerprint)
    _check_agreement(checkpoint, predictor, decoder)
    tensors, speech = checkpoint.tensors, checkpoint.speech_tensors
    return {
        "talker": _Plan(talker, author_talker(talker, tensors), _talker_companions(checkpoint, talker)),
        "code_predictor": _Plan(
            predictor, author_code_predictor(predictor, tensors), _code_predictor_companions(tensors, predictor)
        ),
        "code2wav": _Plan(decoder, author_code2wav(decoder, speech), lambda directory: None),
    }


def _check_agreement(checkpoint: Checkpoint, predictor: CodePredictorConfig, decoder: Code2WavConfig) -> None:
    path, groups, codebook = checkpoint.speech_config_path, predictor.num_code_groups, predictor.decoder.vocab_size
    if decoder.num_quantizers != groups:
        found = f"field 'decoder_config.num_quantizers' is {decoder.num_quantizers}"
        raise CheckpointError(f"{path}: {found}, but the Talker has {groups} code groups")
    if decoder.codebook_size < codebook:
        found = f"field 'decoder_config.codebook_size' is {decoder.codebook_size}"
        raise CheckpointError(f"{path}: {found}, but the CodePredictor produces {codebook} codes")


def _talker_companions(checkpoint: Checkpoint, config: TalkerConfig) -> Callable[[Path], None]:
    tensors, width, text_width = checkpoint.tensors, config.decoder.hidden_size, config.text_hidden_size
    embedding = tensors.source(
        "talker.model.codec_embedding.weight", (config.decoder.vocab_size, width), rename="embedding"
    )
    text = tensors.source(
        "talker.model.text_embedding.weight", (config.text_vocab_size, text_width), rename="text_embedding"
    )
    shapes = ((text_width, text_width), (text_width,), (width, text_width), (width,))
    projection = [
        tensors.source(f"talker.text_projection.{name}", shape, rename=name)
        for name, shape in zip(sidecars.PROJECTION_TENSORS, shapes, strict=True)
    ]

    def write(directory: Path) -> None:
        sidecars.write_talker_sidecars(directory, embedding, text, projection)
        for file in checkpoint.companion_files():
            shutil.copyfile(file, directory / file.name)

    return write


def _code_predictor_companions(tensors: TensorSet, config: CodePredictorConfig) -> Callable[[Path], None]:
    prefix, groups, codebook = "talker.code_predictor", config.num_code_groups, config.decoder.vocab_size
    width, hidden = config.talker_hidden_size, config.decoder.hidden_size

    def tables(pattern: str, shape: tuple[int, ...], names: Sequence[str]) -> list[TensorSource]:
        return [tensors.source(pattern.format(i), shape, rename=name) for i, name in enumerate(names)]

    embeddings = tables(
        f"{prefix}.model.codec_embedding.{{}}.weight", (codebook, width), sidecars.codec_embedding_names(groups)
    )
    heads = tables(f"{prefix}.lm_head.{{}}.weight", (codebook, hidden), sidecars.lm_head_names(groups))
    projection = []
    if width != hidden:
        inner = f"{prefix}.small_to_mtp_projection"
        projection = [
            tensors.source(f"{inner}.weight", (hidden, width), rename="weight"),
            tensors.source(f"{inner}.bias", (hidden,), rename="bias"),
        ]
    return lambda directory: sidecars.write_code_predictor_sidecars(directory, embeddings, heads, projection)
