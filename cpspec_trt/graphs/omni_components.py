"""The components of a Qwen3-Omni checkpoint: the Thinker, and what speaks for it where the checkpoint can speak."""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.checkpoint.qwen3_omni import (
    has_audio_output,
    read_code2wav_config,
    read_code_predictor_config,
    read_talker_config,
    read_thinker_config,
)
from cpspec_trt.checkpoint.reader import Checkpoint
from cpspec_trt.files import sidecars
from cpspec_trt.files.engine_config import OmniTalkerConfig, ThinkerConfig
from cpspec_trt.files.tensors import TensorSet
from cpspec_trt.graphs.companions import check_companions, copy_companions
from cpspec_trt.graphs.component import (
    Component,
    check_code2wav_fits,
    code2wav_component,
    code_predictor_component,
    projection_sources,
)
from cpspec_trt.graphs.omni_code2wav import author_omni_code2wav
from cpspec_trt.graphs.talker import author_talker
from cpspec_trt.graphs.thinker import author_thinker


def omni_components(checkpoint: Checkpoint, fingerprint: str) -> dict[str, Component]:
    """Every component by name, checked against the checkpoint's tensors; no data is read.

    A checkpoint whose ``enable_audio_output`` is false has the Thinker alone.

    Raises:
        CheckpointError: a configuration value or a tensor is missing, damaged, or does not fit the others.
        UnsupportedError: a feature this release does not implement.
    """
    tensors = checkpoint.tensors
    thinker = {"thinker": _thinker(checkpoint, read_thinker_config(checkpoint, fingerprint))}
    if not has_audio_output(checkpoint):
        return thinker
    predictor = read_code_predictor_config(checkpoint, fingerprint)
    decoder = read_code2wav_config(checkpoint, fingerprint)
    check_code2wav_fits(checkpoint, "code2wav_config", predictor, decoder)
    return thinker | {
        "talker": _talker(tensors, read_talker_config(checkpoint, fingerprint)),
        "code_predictor": code_predictor_component(predictor, tensors),
        "code2wav": code2wav_component(decoder, author_omni_code2wav(decoder, tensors)),
    }


def _thinker(checkpoint: Checkpoint, config: ThinkerConfig) -> Component:
    check_companions(checkpoint, config)
    author = author_thinker(config, checkpoint.tensors)
    shape = (config.decoder.vocab_size, config.decoder.hidden_size)
    embedding = checkpoint.tensors.source("thinker.model.embed_tokens.weight", shape, rename="embedding")

    def write(directory: Path) -> None:
        sidecars.write_thinker_sidecars(directory, embedding)
        copy_companions(checkpoint, directory)

    return Component(config, author, write)


def _talker(tensors: TensorSet, config: OmniTalkerConfig) -> Component:
    author = author_talker(config, tensors)
    width, inner, text_width = config.decoder.hidden_size, config.decoder.intermediate_size, config.thinker_hidden_size
    embedding = tensors.source(
        "talker.model.codec_embedding.weight", (config.decoder.vocab_size, width), rename="embedding"
    )
    text, hidden = (
        projection_sources(tensors, f"talker.{name}_projection", text_width, inner, width)
        for name in ("text", "hidden")
    )
    return Component(
        config, author, lambda directory: sidecars.write_omni_talker_sidecars(directory, embedding, text, hidden)
    )
