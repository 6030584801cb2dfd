"""A whole Qwen3-TTS checkpoint from a seed, in the published layout."""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.synthetic.configs import (
    feature_extractor_config,
    generation_config,
    model_config,
    processor_config,
    speech_config,
)
from cpspec_trt.synthetic.language_model_layout import language_model_tensors
from cpspec_trt.synthetic.new_checkpoint import new_checkpoint
from cpspec_trt.synthetic.safetensors_files import write_model
from cpspec_trt.synthetic.spec import TtsSpec
from cpspec_trt.synthetic.speech_layout import speech_tensors
from cpspec_trt.synthetic.tokenizer import write_tokenizer


def write_tts_checkpoint(directory: Path, spec: TtsSpec, seed: int) -> None:
    """Write a checkpoint with random weights; the same spec and seed give the same bytes everywhere.

    Weights are streamed, so memory stays at some ten megabytes even for the published sizes.

    Args:
        directory: made, with its parents; it must not exist or must be empty.
        spec: every dimension; ``spec.SPECS`` has named ones.
        seed: any integer.

    Raises:
        UsageError: the directory holds something already.
    """
    with new_checkpoint(directory) as new:
        vocabulary = write_tokenizer(new, spec.text_base_vocab)
        write_json_atomic(new / "config.json", model_config(spec, vocabulary))
        write_json_atomic(new / "generation_config.json", generation_config())
        write_json_atomic(new / "preprocessor_config.json", processor_config())
        write_model(new, language_model_tensors(spec), spec.dtype, seed, spec.shard_bytes)
        speech = new / "speech_tokenizer"
        speech.mkdir()
        write_json_atomic(speech / "config.json", speech_config(spec))
        write_json_atomic(speech / "preprocessor_config.json", feature_extractor_config())
        write_model(speech, speech_tensors(spec), spec.speech_dtype, seed, None)
