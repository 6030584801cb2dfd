"""The tables beside an engine: embeddings, projections and heads that the runtime applies itself.

File and tensor names are those of the reference system. Ours are written as F32 and read as F32, F16 or BF16; the
reference's runtime wants FP16, so its tables can be read here, and ours must be converted before it takes them.

=====================================  ==========================================================
``embedding.safetensors``              ``embedding`` [vocabulary, width] of the Talker's codes or the Thinker's text
``text_embedding.safetensors``         ``text_embedding`` [text vocabulary, text width]
``text_projection.safetensors``        ``linear_fc1.weight``/``.bias``, ``linear_fc2.weight``/``.bias``
``hidden_projection.safetensors``      the same, for hidden states of the Thinker (Qwen3-Omni)
``codec_embeddings.safetensors``       ``embedding_0`` … ``embedding_{G-2}`` [codebook, Talker width]
``lm_heads.safetensors``               ``lm_head_0.weight`` … ``lm_head_{G-2}.weight`` [codebook, width]
``small_to_mtp_projection.safetensors``  ``weight`` [width, Talker width], ``bias`` [width]
=====================================  ==========================================================

The last one is written for those other tools only: our CodePredictor graph holds the projection. A Talker of
Qwen3-Omni has no ``text_embedding.safetensors``: its text rows start from the Thinker's table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import CodePredictorConfig, OmniTalkerConfig, TalkerConfig, ThinkerConfig
from cpspec_trt.files.tensors import TensorSet, TensorSource, open_tensors, write_tensors

EMBEDDING = "embedding.safetensors"
TEXT_EMBEDDING = "text_embedding.safetensors"
TEXT_PROJECTION = "text_projection.safetensors"
HIDDEN_PROJECTION = "hidden_projection.safetensors"
CODEC_EMBEDDINGS = "codec_embeddings.safetensors"
LM_HEADS = "lm_heads.safetensors"
PROJECTION = "small_to_mtp_projection.safetensors"

TALKER_SIDECARS = (EMBEDDING, TEXT_EMBEDDING, TEXT_PROJECTION)
THINKER_SIDECARS = (EMBEDDING,)
OMNI_TALKER_SIDECARS = (EMBEDDING, TEXT_PROJECTION, HIDDEN_PROJECTION)
CODE_PREDICTOR_SIDECARS = (CODEC_EMBEDDINGS, LM_HEADS)
ALL_SIDECARS = (
    EMBEDDING, TEXT_EMBEDDING, TEXT_PROJECTION, HIDDEN_PROJECTION, CODEC_EMBEDDINGS, LM_HEADS, PROJECTION
)  # fmt: skip
PROJECTION_TENSORS = ("linear_fc1.weight", "linear_fc1.bias", "linear_fc2.weight", "linear_fc2.bias")

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TalkerTables:
    """Float32 tables of a Talker; large ones are read-only memory maps.

    ``codec_embedding`` [V, H], ``text_embedding`` [Vt, Ht]; the text projection is
    fc2(SiLU(fc1(row))) with weights [out, in] and biases [out].
    """

    codec_embedding: Array
    text_embedding: Array
    fc1_weight: Array
    fc1_bias: Array
    fc2_weight: Array
    fc2_bias: Array


@dataclass(frozen=True, slots=True)
class CodePredictorTables:
    """Float32 tables of the CodePredictor, one plane per RVQ depth, each a single contiguous block.

    ``codec_embeddings`` [G-1, V, T] embeds code j+1 in plane j, in Talker width;
    ``lm_heads`` [G-1, V, H] predicts code j+1 in plane j.
    """

    codec_embeddings: Array
    lm_heads: Array


def write_talker_sidecars(
    directory: Path, embedding: TensorSource, text_embedding: TensorSource, projection: Sequence[TensorSource]
) -> None:
    """Write the three Talker files; sources carry the names of the table above."""
    write_tensors(directory / EMBEDDING, [embedding])
    write_tensors(directory / TEXT_EMBEDDING, [text_embedding])
    write_tensors(directory / TEXT_PROJECTION, projection)


def write_thinker_sidecars(directory: Path, embedding: TensorSource) -> None:
    """Write the Thinker's file; the source carries the name of the table above."""
    write_tensors(directory / EMBEDDING, [embedding])


def write_omni_talker_sidecars(
    directory: Path,
    embedding: TensorSource,
    text_projection: Sequence[TensorSource],
    hidden_projection: Sequence[TensorSource],
) -> None:
    """Write the three files of a Qwen3-Omni Talker; sources carry the names of the table above."""
    write_tensors(directory / EMBEDDING, [embedding])
    write_tensors(directory / TEXT_PROJECTION, text_projection)
    write_tensors(directory / HIDDEN_PROJECTION, hidden_projection)


def write_code_predictor_sidecars(
    directory: Path,
    embeddings: Sequence[TensorSource],
    heads: Sequence[TensorSource],
    projection: Sequence[TensorSource],
) -> None:
    """Write the CodePredictor files, tables in depth order; ``projection`` is empty where the model has none."""
    write_tensors(directory / CODEC_EMBEDDINGS, embeddings)
    write_tensors(directory / LM_HEADS, heads)
    if projection:
        write_tensors(directory / PROJECTION, projection)


def codec_embedding_names(num_code_groups: int) -> list[str]:
    """Tensor names of ``codec_embeddings.safetensors``, in depth order."""
    return [f"embedding_{depth}" for depth in range(num_code_groups - 1)]


def lm_head_names(num_code_groups: int) -> list[str]:
    """Tensor names of ``lm_heads.safetensors``, in depth order."""
    return [f"lm_head_{depth}.weight" for depth in range(num_code_groups - 1)]


def read_talker_sidecars(directory: Path, config: TalkerConfig) -> TalkerTables:
    """Open the Talker's tables.

    Raises:
        EngineError: a file or tensor is missing, there are more tensors than the file should hold, or
            one has the wrong type or shape; the message names file and tensor.
    """
    width, text_width = config.decoder.hidden_size, config.text_hidden_size
    embedding = _read_embedding(directory, config.decoder.vocab_size, width)
    text = open_tensors(directory / TEXT_EMBEDDING, EngineError)
    _expect_count(text, 1)
    table = text.mapped(next(iter(text.entries)), (config.text_vocab_size, text_width))
    return TalkerTables(embedding, table, *_read_projection(directory / TEXT_PROJECTION, text_width, width))


def read_thinker_sidecars(directory: Path, config: ThinkerConfig) -> Array:
    """Open the Thinker's embedding table, float32 [V, H]. Raises EngineError as ``read_talker_sidecars`` does."""
    return _read_embedding(directory, config.decoder.vocab_size, config.decoder.hidden_size)


def read_omni_talker_sidecars(directory: Path, config: OmniTalkerConfig, thinker_embedding: Array) -> TalkerTables:
    """Open the tables of a Qwen3-Omni Talker.

    The hidden projection is checked but not kept: only rows of images, audio and video pass through it.

    Args:
        directory: the Talker's engine directory.
        config: its config.
        thinker_embedding: float32 [text vocabulary, Thinker width], of ``read_thinker_sidecars``.

    Raises:
        EngineError: as ``read_talker_sidecars``, or the Talker was made for a Thinker of another width.
    """
    width, text_width = config.decoder.hidden_size, config.thinker_hidden_size
    if thinker_embedding.shape[1] != text_width:
        found = f"thinker_hidden_size is {text_width}, but the Thinker's rows have {thinker_embedding.shape[1]} values"
        raise EngineError(f"{directory / 'config.json'}: {found}; build all with cpspec-build --checkpoint")
    embedding = _read_embedding(directory, config.decoder.vocab_size, width)
    _read_projection(directory / HIDDEN_PROJECTION, text_width, width)
    return TalkerTables(embedding, thinker_embedding, *_read_projection(directory / TEXT_PROJECTION, text_width, width))


def read_code_predictor_sidecars(directory: Path, config: CodePredictorConfig) -> CodePredictorTables:
    """Open the CodePredictor's tables. Raises EngineError as ``read_talker_sidecars`` does."""
    groups, codebook = config.num_code_groups, config.decoder.vocab_size
    if groups < 2:
        found = f"field 'num_code_groups' is {groups}, a CodePredictor needs at least 2"
        raise EngineError(f"{directory / 'config.json'}: {found}; export it again with cpspec-export")
    embeddings = open_tensors(directory / CODEC_EMBEDDINGS, EngineError)
    heads = open_tensors(directory / LM_HEADS, EngineError)
    embedding_names, head_names = codec_embedding_names(groups), lm_head_names(groups)
    tables = CodePredictorTables(
        codec_embeddings=embeddings.stacked(embedding_names, (codebook, config.talker_hidden_size)),
        lm_heads=heads.stacked(head_names, (codebook, config.decoder.hidden_size)),
    )
    _expect_count(embeddings, groups - 1)
    _expect_count(heads, groups - 1)
    return tables


def _read_embedding(directory: Path, vocabulary: int, width: int) -> Array:
    tensors = open_tensors(directory / EMBEDDING, EngineError)
    _expect_count(tensors, 1)
    return tensors.mapped("embedding", (vocabulary, width))


def _read_projection(path: Path, inputs: int, outputs: int) -> tuple[Array, Array, Array, Array]:
    """Weight and bias of both layers; the first layer's number of outputs is whatever its bias has."""
    tensors = open_tensors(path, EngineError)
    _expect_count(tensors, 4)
    fc1_weight, fc1_bias, fc2_weight, fc2_bias = (_name_containing(tensors, name) for name in PROJECTION_TENSORS)
    inner = tensors.entry(fc1_bias).shape[:1]
    return (
        tensors.read(fc1_weight, (*inner, inputs)),
        tensors.read(fc1_bias, inner),
        tensors.read(fc2_weight, (outputs, *inner)),
        tensors.read(fc2_bias, (outputs,)),
    )


def _expect_count(tensors: TensorSet, count: int) -> None:
    found = len(tensors.entries)
    if found != count:
        plural = "tensor" if count == 1 else "tensors"
        message = f"holds {found} tensors, expected exactly {count} {plural}"
        raise EngineError(f"{tensors.path}: {message}; export it again with cpspec-export")


def _name_containing(tensors: TensorSet, wanted: str) -> str:
    """The tensor whose name contains ``fc1.weight`` etc.: other exporters put other words around it."""
    part = wanted.removeprefix("linear_")
    return next((name for name in tensors.entries if part in name), wanted)
