"""Frames of the demo voice: the Talker speaks autoregressively, and what the CodePredictor is given is kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cpspec_trt import TTS
from cpspec_trt.api.arguments import speech_settings
from cpspec_trt.files.sidecars import read_talker_sidecars
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.pipelines.engine_set import SpeechEngines, check_tts, locate, open_speech
from cpspec_trt.pipelines.speech import SpeechJob
from cpspec_trt.sampling.effective import GenerationDefaults, effective_sampling
from cpspec_trt.sampling.talker import TalkerSampler
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus
from cpspec_trt.stages.code_predictor import CodePredictorStage
from cpspec_trt.stages.talker import TalkerStage
from cpspec_trt.stages.talker_rows import TalkerRows

MOST_FRAMES = 60  # of a sentence


@dataclass(frozen=True, slots=True)
class Recording:
    """Frames of real speech.

    Attributes:
        hidden: float32 [F, T], the Talker's row of each frame.
        first: int64 [F], c0.
        seeds: uint64 [F], seed of the frame's sentence.
        frames: int64 [F], the frame's index in its sentence.
        filters: the CodePredictor's filter.
        predictor: the CodePredictor, for one frame.
        heads: float32 [G-1, V, H].
    """

    hidden: np.ndarray
    first: np.ndarray
    seeds: np.ndarray
    frames: np.ndarray
    filters: FilterParameters
    predictor: CodePredictorStage
    heads: np.ndarray


def record(engines_root: Path, sentences: list[str], speakers: tuple[str, ...]) -> Recording:
    """Speak sentences, by turns in each voice, with the checkpoint's own sampling."""
    directories = locate(engines_root / "talker", None, audio=False)
    configs, config = check_tts(directories)
    engines = open_speech(directories, configs, lambda: read_talker_sidecars(directories.talker, config), 1)
    tts = TTS.from_directories(directories, None, 1)
    defaults = GenerationDefaults.read(directories.talker)
    predictor = CodePredictorStage(
        engines.code_predictor,
        configs.code_predictor,
        engines.code_predictor_tables,
        engines.talker_tables.codec_embedding,
    )
    kept: list[tuple[np.ndarray, int, int, int]] = []
    filters = None
    for number, text in enumerate(sentences):
        sampling = effective_sampling(speech_settings(number, False, None, None), defaults)
        job = tts.prepare("sentence", text, speakers[number % len(speakers)], None, None, None, sampling)
        filters = sampling.code_predictor
        _speak(engines, predictor, TalkerRows(engines.talker_tables, config.tts_pad_token_id), job, kept)
    assert filters is not None
    hidden, first, seeds, frames = zip(*kept, strict=True)
    arrays = np.array(hidden), np.array(first), np.array(seeds, np.uint64), np.array(frames)
    return Recording(*arrays, filters, predictor, engines.code_predictor_tables.lm_heads)


def _speak(
    engines: SpeechEngines,
    predictor: CodePredictorStage,
    rows: TalkerRows,
    job: SpeechJob,
    kept: list[tuple[np.ndarray, int, int, int]],
) -> None:
    config, kernels = engines.configs.talker, default_kernels()
    talker = TalkerStage(engines.talker, config.decoder)
    sampling, layout = job.sampling, job.layout
    sampler = TalkerSampler(kernels, config.decoder.vocab_size, config.codec_eos_id, 2, [sampling])
    decoder = FrameDecoder(kernels, predictor, engines.code_predictor_tables.lm_heads, 0)
    tables = [engines.talker_tables.codec_embedding, *engines.code_predictor_tables.codec_embeddings]
    text, feedback = rows.feed(layout), np.empty_like(talker.hidden)
    seeds, codes = np.array([sampling.seed], np.uint64), np.empty((1, predictor.groups), np.int64)
    talker.start([rows.prompt(layout)])
    for frame in range(MOST_FRAMES):
        first = sampler.draw(talker.logits, frame)
        if first[0] == config.codec_eos_id:
            return
        kept.append((talker.hidden[0].copy(), int(first[0]), sampling.seed, frame))
        counters = [SpeculationStatistics(SpeculationStatus(0, 0))]
        decoder.decode(talker.hidden, first, seeds, np.array([frame]), [sampling.code_predictor], codes, counters)
        kernels.sum_codec_embeddings(tables, codes, feedback)
        feedback += text[min(frame, len(text) - 1)]
        talker.step(feedback)
