"""The build plans of a checkpoint, without exporting it: its graphs are authored, but no weight is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cpspec_trt.builder.exported import tensors_of
from cpspec_trt.builder.profiles import BuildLimits, BuildPlan, component_of, plan
from cpspec_trt.checkpoint.qwen3_tts import read_code2wav_config, read_code_predictor_config, read_talker_config
from cpspec_trt.checkpoint.reader import open_checkpoint
from cpspec_trt.graphs.code2wav import author_code2wav
from cpspec_trt.graphs.code_predictor import author_code_predictor
from cpspec_trt.graphs.talker import author_talker

_NO_FINGERPRINT = ""  # would cost a pass over all weights, and no plan depends on it


def plan_checkpoint(checkpoint: Path, limits: Mapping[str, BuildLimits]) -> list[BuildPlan]:
    """Plan every component. Writes nothing.

    Raises:
        CheckpointError: the checkpoint is incomplete, or a tensor does not fit its config.
        UsageError: limits that fit no engine.
    """
    opened = open_checkpoint(checkpoint)
    talker = read_talker_config(opened, _NO_FINGERPRINT)
    predictor = read_code_predictor_config(opened, _NO_FINGERPRINT)
    decoder = read_code2wav_config(opened, _NO_FINGERPRINT)
    authored = (
        (talker, author_talker(talker, opened.tensors)),
        (predictor, author_code_predictor(predictor, opened.tensors)),
        (decoder, author_code2wav(decoder, opened.speech_tensors)),
    )
    return [plan(config, tensors_of(author._inputs), limits[component_of(config)]) for config, author in authored]
