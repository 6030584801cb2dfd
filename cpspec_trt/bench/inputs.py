"""What frames start from: the Talker's row and c0 of every frame, recorded from requests or drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpspec_trt.bench.overlap import entropy_bits
from cpspec_trt.engines.engine import Engine
from cpspec_trt.errors import RequestError
from cpspec_trt.kernels.loading import CPU_LIBRARY, REBUILD
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.native_library import NativeLibrary
from cpspec_trt.kernels.protocol import F32, I32, I64, U8, U32, U64, FilterParameters, FilterRows, Logits
from cpspec_trt.pipelines.engine_set import SpeechEngines
from cpspec_trt.pipelines.machine import SpeechRules
from cpspec_trt.pipelines.speech import SpeechJob
from cpspec_trt.sampling.talker import TalkerSampler
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus
from cpspec_trt.stages.code_predictor import CodePredictorStage
from cpspec_trt.stages.talker import TalkerStage
from cpspec_trt.stages.talker_rows import TalkerRows


@dataclass(frozen=True, slots=True)
class FrameInputs:
    """Frames of one or more requests, one row each.

    Attributes:
        hidden: float32 [F, T], the Talker's row that produced c0.
        first_codes: int64 [F], c0.
        seeds: uint64 [F], effective seed of the request.
        frames: uint32 [F], index of the frame within its request.
        filters: of the CodePredictor.
    """

    hidden: F32
    first_codes: I64
    seeds: U64
    frames: U32
    filters: tuple[FilterParameters, ...]

    def __len__(self) -> int:
        return len(self.first_codes)


@dataclass(frozen=True, slots=True)
class TalkerLaws:
    """The laws c0 was drawn from, after every processor.

    Attributes:
        entropy: bits, one per frame.
        top1: probability of the most probable code.
    """

    entropy: tuple[float, ...]
    top1: tuple[float, ...]


def random_inputs(talker_hidden: int, codebook: int, frames: int, seed: int, filters: FilterParameters) -> FrameInputs:
    """Rows of standard normal values: the spread that a Talker's final norm gives, with nothing behind it."""
    generator = np.random.default_rng(seed)
    return FrameInputs(
        generator.standard_normal((frames, talker_hidden)).astype(np.float32),
        generator.integers(codebook, size=frames),
        np.full(frames, seed, np.uint64),
        np.arange(frames, dtype=np.uint32),
        (filters,) * frames,
    )


def record(
    engines: SpeechEngines, talker: Engine, stage: CodePredictorStage, rules: SpeechRules, jobs: Sequence[SpeechJob]
) -> tuple[FrameInputs, TalkerLaws]:
    """Speak requests autoregressively and keep what each frame started from.

    Args:
        engines: whose tables are used.
        talker: the Talker's engine.
        stage: over the CodePredictor's engine, for one sequence.
        rules: of the family.
        jobs: the requests.

    Raises:
        RequestError: no request has a frame.
    """
    kernels = _WatchingKernels()
    config, tables = engines.configs.talker, engines.code_predictor_tables
    talker_stage = TalkerStage(talker, config.decoder)
    rows = TalkerRows(engines.talker_tables, rules.tts_pad_token_id)
    decoder = FrameDecoder(kernels, stage, tables.lm_heads, window=0)
    embeddings = [engines.talker_tables.codec_embedding, *tables.codec_embeddings]
    found: list[tuple[np.ndarray, int, int, int, FilterParameters]] = []
    codes, feedback = np.empty((1, stage.groups), np.int64), np.empty_like(talker_stage.hidden)
    statistics = [SpeculationStatistics(SpeculationStatus(0, 0))]
    for job in jobs:
        sampling = job.sampling
        sampler = TalkerSampler(
            kernels, config.decoder.vocab_size, config.codec_eos_id, rules.min_new_tokens, [sampling]
        )
        stage.reset()
        text, seeds = rows.feed(job.layout), np.array([sampling.seed], np.uint64)
        talker_stage.start([rows.prompt(job.layout)])
        for frame in range(job.max_frames):
            first = sampler.draw(talker_stage.logits, frame)
            if first[0] == config.codec_eos_id:
                kernels.forget_last()
                break
            row = talker_stage.hidden[0].copy()
            found.append((row, int(first[0]), sampling.seed, frame, sampling.code_predictor))
            filters = [sampling.code_predictor]
            decoder.decode(talker_stage.hidden, first, seeds, np.array([frame]), filters, codes, statistics)
            kernels.sum_codec_embeddings(embeddings, codes, feedback)
            feedback += text[min(frame, len(text) - 1)]
            talker_stage.step(feedback)
    if not found:
        raise RequestError("every request ended before its first frame, so there is nothing to measure; give others")
    hidden, first_codes, of_seed, at, chosen = zip(*found, strict=True)
    inputs = FrameInputs(
        np.array(hidden), np.array(first_codes), np.array(of_seed, np.uint64), np.array(at, np.uint32), chosen
    )
    return inputs, kernels.laws()


class _WatchingKernels(NativeKernels):
    """The library's kernels, keeping entropy and top-1 of every law that a c0 is drawn from."""

    def __init__(self) -> None:
        super().__init__(NativeLibrary(CPU_LIBRARY, REBUILD))
        self._entropy: list[float] = []
        self._top1: list[float] = []

    def draw_talker(
        self,
        logits: Logits,
        seen: U8,
        penalty: F32,
        suppressed: U8,
        eos: int,
        ban_eos: U8,
        filters: FilterRows,
        seeds: U64,
        frames: U32,
        probabilities: F32,
        codes: I64,
        errors: I32,
    ) -> None:
        """See ``Kernels.draw_talker``."""
        super().draw_talker(
            logits, seen, penalty, suppressed, eos, ban_eos, filters, seeds, frames, probabilities, codes, errors
        )
        self._entropy.append(float(entropy_bits(probabilities)[0]))
        self._top1.append(float(probabilities[0].max()))

    def forget_last(self) -> None:
        """The last draw ended a request and began no frame."""
        self._entropy.pop()
        self._top1.pop()

    def laws(self) -> TalkerLaws:
        """What was kept."""
        return TalkerLaws(tuple(self._entropy), tuple(self._top1))
