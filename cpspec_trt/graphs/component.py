"""One component of a checkpoint, checked and ready to be written, and what the two families have in common there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpspec_trt.checkpoint.reader import Checkpoint
from cpspec_trt.errors import CheckpointError
from cpspec_trt.files import sidecars
from cpspec_trt.files.engine_config import AnyCode2WavConfig, CodePredictorConfig, ComponentConfig
from cpspec_trt.files.tensors import TensorSet, TensorSource
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.code_predictor import author_code_predictor


@dataclass(frozen=True, slots=True)
class Component:
    """Config, graph, and what writes the tables and other files beside them into a directory."""

    config: ComponentConfig
    author: GraphAuthor
    write_companions: Callable[[Path], None]


def projection_sources(tensors: TensorSet, name: str, inputs: int, inner: int, outputs: int) -> list[TensorSource]:
    """``linear_fc1`` and ``linear_fc2`` of a two-layer projection under the names its sidecar has.

    Raises:
        CheckpointError: a tensor is missing or has another shape.
    """
    shapes = ((inner, inputs), (inner,), (outputs, inner), (outputs,))
    return [
        tensors.source(f"{name}.{part}", shape, rename=part)
        for part, shape in zip(sidecars.PROJECTION_TENSORS, shapes, strict=True)
    ]


def code_predictor_component(config: CodePredictorConfig, tensors: TensorSet) -> Component:
    """The CodePredictor, which has the same tensor names in both families.

    Raises:
        CheckpointError: a tensor is missing or has another shape.
    """
    prefix, groups, codebook = "talker.code_predictor", config.num_code_groups, config.decoder.vocab_size
    width, hidden = config.talker_hidden_size, config.decoder.hidden_size

    def tables(pattern: str, shape: tuple[int, ...], names: Sequence[str]) -> list[TensorSource]:
        return [tensors.source(pattern.format(i), shape, rename=name) for i, name in enumerate(names)]

    for stem in ("model.codec_embedding", "lm_head"):
        tensors.check_length(f"{prefix}.{stem}", groups - 1)
    author = author_code_predictor(config, tensors)
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
    return Component(
        config,
        author,
        lambda directory: sidecars.write_code_predictor_sidecars(directory, embeddings, heads, projection),
    )


def code2wav_component(config: AnyCode2WavConfig, author: GraphAuthor) -> Component:
    """code2wav has no tables: everything is in its graph."""
    return Component(config, author, lambda directory: None)


def check_code2wav_fits(
    checkpoint: Checkpoint, section: str, predictor: CodePredictorConfig, decoder: AnyCode2WavConfig
) -> None:
    """Refuse a decoder that does not take what the CodePredictor gives.

    Args:
        checkpoint: both come from it.
        section: name of the decoder's section in its configuration.
        predictor: config of the CodePredictor.
        decoder: config of code2wav.

    Raises:
        CheckpointError: names the field that does not fit.
    """
    path, groups, codebook = checkpoint.speech_config_path, predictor.num_code_groups, predictor.decoder.vocab_size
    if decoder.num_quantizers != groups:
        found = f"field '{section}.num_quantizers' is {decoder.num_quantizers}"
        raise CheckpointError(f"{path}: {found}, but the Talker has {groups} code groups")
    if decoder.codebook_size < codebook:
        found = f"field '{section}.codebook_size' is {decoder.codebook_size}"
        raise CheckpointError(f"{path}: {found}, but the CodePredictor produces {codebook} codes")
