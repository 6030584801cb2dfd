"""The three components of a Qwen3-TTS checkpoint: Talker, CodePredictor, code2wav."""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.checkpoint.qwen3_tts import read_code2wav_config, read_code_predictor_config, read_talker_config
from cpspec_trt.checkpoint.reader import Checkpoint
from cpspec_trt.files import sidecars
from cpspec_trt.files.engine_config import TalkerConfig
from cpspec_trt.graphs.code2wav import author_code2wav
from cpspec_trt.graphs.companions import check_companions, copy_companions
from cpspec_trt.graphs.component import (
    Component,
    check_code2wav_fits,
    code2wav_component,
    code_predictor_component,
    projection_sources,
)
from cpspec_trt.graphs.talker import author_talker


def tts_components(checkpoint: Checkpoint, fingerprint: str) -> dict[str, Component]:
    """Every component by name, checked against the checkpoint's tensors; no data is read.

    Raises:
        CheckpointError: a configuration value or a tensor is missing, damaged, or does not fit the others.
        UnsupportedError: a Base checkpoint, or a feature this release does not implement.
    """
    talker = read_talker_config(checkpoint, fingerprint)
    predictor = read_code_predictor_config(checkpoint, fingerprint)
    decoder = read_code2wav_config(checkpoint, fingerprint)
    check_code2wav_fits(checkpoint, "decoder_config", predictor, decoder)
    return {
        "talker": _talker(checkpoint, talker),
        "code_predictor": code_predictor_component(predictor, checkpoint.tensors),
        "code2wav": code2wav_component(decoder, author_code2wav(decoder, checkpoint.speech_tensors)),
    }


def _talker(checkpoint: Checkpoint, config: TalkerConfig) -> Component:
    check_companions(checkpoint, config)
    tensors, width, text_width = checkpoint.tensors, config.decoder.hidden_size, config.text_hidden_size
    author = author_talker(config, tensors)
    embedding = tensors.source(
        "talker.model.codec_embedding.weight", (config.decoder.vocab_size, width), rename="embedding"
    )
    text = tensors.source(
        "talker.model.text_embedding.weight", (config.text_vocab_size, text_width), rename="text_embedding"
    )
    projection = projection_sources(tensors, "talker.text_projection", text_width, text_width, width)

    def write(directory: Path) -> None:
        sidecars.write_talker_sidecars(directory, embedding, text, projection)
        copy_companions(checkpoint, directory)

    return Component(config, author, write)
