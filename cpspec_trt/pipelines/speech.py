"""Speech of both families: one prompt through Talker, CodePredictor and code2wav.

Frame t: c0 is drawn from the Talker's logits, the CodePredictor completes the frame, and the sum of the
16 code embeddings plus one text row is the Talker's next input.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from cpspec_trt.errors import RequestError
from cpspec_trt.files.results import FinishReason
from cpspec_trt.kernels.faults import RowNumericError
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import Kernels
from cpspec_trt.pipelines.engine_set import SpeechEngines
from cpspec_trt.pipelines.events import Listener
from cpspec_trt.pipelines.times import (
    CODE2WAV,
    CODE_PREDICTOR_GENERATION,
    CODE_PREDICTOR_PREFILL,
    TALKER_GENERATION,
    TALKER_PREFILL,
    StageTimes,
)
from cpspec_trt.sampling.effective import EffectiveSampling
from cpspec_trt.sampling.talker import TalkerSampler
from cpspec_trt.speculation.fallback import MAX_CODEBOOK, resolve_window
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus
from cpspec_trt.stages.code2wav import Code2WavStage
from cpspec_trt.stages.code_predictor import CodePredictorStage
from cpspec_trt.stages.talker import TalkerStage
from cpspec_trt.text.layout import PromptLayout

DECODE_CHUNK = 25  # frames; the fastest chunks keep activations in the cache, the samples do not depend on it


@dataclass(frozen=True, slots=True)
class SpeechJob:
    """A checked request, ready to run.

    Attributes:
        name: how messages call it, for example ``request 3``.
        layout: the prompt.
        sampling: effective values; ``max_frames`` there may exceed the cap below.
        max_frames: frame cap, within the engine's KV capacity.
        warnings: what the caller should be told, one line each.
    """

    name: str
    layout: PromptLayout
    sampling: EffectiveSampling
    max_frames: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpokenCodes:
    """What the Talker and the CodePredictor made of a request.

    Attributes:
        codes: int32 [frames, groups].
        finish_reason: ``stop`` at EOS, ``length`` at the frame cap.
        speculation: counters.
        times: time spent per stage.
    """

    codes: np.ndarray
    finish_reason: FinishReason
    speculation: SpeculationStatistics
    times: StageTimes


@dataclass(frozen=True, slots=True)
class SpeechRules:
    """What the two families do differently.

    Attributes:
        tts_pad_token_id: text id that joins every frame after the text.
        min_new_tokens: Talker tokens for which EOS is banned.
    """

    tts_pad_token_id: int
    min_new_tokens: int


class SpeechPipeline:
    """Runs requests one after the other over one set of engines. Not for use by two threads at once."""

    def __init__(self, engines: SpeechEngines, rules: SpeechRules) -> None:
        config, predictor = engines.configs.talker, engines.configs.code_predictor
        self._config = config
        self._rules = rules
        self._kernels = _kernels_for(config.decoder.vocab_size, engines.code_predictor_tables.lm_heads.shape[1])
        self._talker = TalkerStage(engines.talker, config.decoder, engines.talker_tables)
        self._tables = engines.code_predictor_tables
        codec_embedding = engines.talker_tables.codec_embedding
        self._predictor = CodePredictorStage(engines.code_predictor, predictor, self._tables, codec_embedding)
        self._embeddings = [codec_embedding, *self._tables.codec_embeddings]
        self._decoders: dict[int, FrameDecoder] = {}
        self._exact: dict[int, bool] = {}
        self._code2wav = None
        if engines.code2wav is not None and engines.configs.code2wav is not None:
            self._code2wav = Code2WavStage(engines.code2wav, engines.configs.code2wav)

    def speculation(self, window: int, rebuild: str) -> SpeculationStatus:
        """What a requested verify window comes to on these engines (see ``resolve_window``).

        The first call for a window probes whether its passes round like single steps.
        """
        stage = self._predictor
        status = resolve_window(window, stage.groups, stage.codebook, stage.max_rows, rebuild)
        if not status.effective:
            return status
        if window not in self._exact:
            self._exact[window] = stage.rows_are_exact(window)
        return replace(status, rows_exact=self._exact[window])

    def generate(self, job: SpeechJob, status: SpeculationStatus, listener: Listener) -> SpokenCodes:
        """Produce the codes of a request.

        Raises:
            RowNumericError: the logits of a row allow no draw; names request, frame and depth.
            EngineError: an engine failed.
        """
        statistics = SpeculationStatistics(status)
        times = StageTimes()
        codes = np.empty((job.max_frames, self._predictor.groups), np.int32)
        listener.request_started(job.name, job.max_frames)
        self._predictor.reset()
        try:
            frames, finished = self._frames(job, status.effective, codes, statistics, times, listener)
        except RowNumericError as fault:
            raise fault.of_request(job.name) from None
        return SpokenCodes(codes[:frames].copy(), finished, statistics, times)

    def decode(self, codes: np.ndarray, times: StageTimes) -> tuple[np.ndarray, int]:
        """Codes to samples.

        Args:
            codes: integer [frames, groups].
            times: the code2wav time is added here.

        Returns:
            (float32 [samples], sample rate in Hz).

        Raises:
            RequestError: the pipeline was opened without code2wav.
            NumericError: a sample is not finite.
        """
        if self._code2wav is None:
            raise RequestError("the engines were opened without code2wav, so there is no audio; open them with it")
        with times.measure(CODE2WAV):
            self._code2wav.reset()
            samples = self._code2wav.decode(codes, DECODE_CHUNK)
        return samples, self._code2wav.sample_rate

    def _frames(
        self,
        job: SpeechJob,
        window: int,
        codes: np.ndarray,
        statistics: SpeculationStatistics,
        times: StageTimes,
        listener: Listener,
    ) -> tuple[int, FinishReason]:
        """Fill ``codes`` frame by frame; returns the number of frames and why they ended."""
        sampling = job.sampling
        talker, decoder = self._talker, self._decoder(window)
        vocabulary, eos = self._config.decoder.vocab_size, self._config.codec_eos_id
        sampler = TalkerSampler(self._kernels, vocabulary, eos, self._rules.min_new_tokens, [sampling])
        seeds, frame_index = np.array([sampling.seed], np.uint64), np.empty(1, np.int64)
        row, feedback = np.empty((1, codes.shape[1]), np.int64), np.empty_like(talker.hidden)
        with times.measure(TALKER_PREFILL):
            text = _TextFeed(talker, job.layout, self._rules.tts_pad_token_id)
            talker.start([talker.prompt_rows(job.layout.text_ids, job.layout.codec_ids)])
        for frame in range(job.max_frames + 1):
            first = sampler.draw(talker.logits, frame)
            if first[0] == eos:
                return frame, "stop"
            if frame == job.max_frames:
                break
            began = time.perf_counter()
            frame_index[0] = frame
            decoder.decode(talker.hidden, first, seeds, frame_index, [sampling.code_predictor], row, [statistics])
            codes[frame] = row[0]
            self._kernels.sum_codec_embeddings(self._embeddings, row, feedback)
            times.add(CODE_PREDICTOR_PREFILL, self._predictor.prefill_seconds)
            times.add(CODE_PREDICTOR_GENERATION, time.perf_counter() - began - self._predictor.prefill_seconds)
            listener.frame_finished(frame + 1)
            with times.measure(TALKER_GENERATION):
                feedback += text.row(frame)
                talker.step(feedback)
        return job.max_frames, "length"

    def _decoder(self, window: int) -> FrameDecoder:
        if window not in self._decoders:
            self._decoders[window] = FrameDecoder(self._kernels, self._predictor, self._tables.lm_heads, window)
        return self._decoders[window]


def _kernels_for(talker_vocabulary: int, codebook: int) -> Kernels:
    """The native kernels keep a row in fast memory; beyond their bound the readable ones decode, slowly but right."""
    return default_kernels() if max(talker_vocabulary, codebook) <= MAX_CODEBOOK else OracleKernels()


class _TextFeed:
    """The text row that joins each frame: the trailing rows, then tts_pad."""

    def __init__(self, talker: TalkerStage, layout: PromptLayout, pad: int) -> None:
        self._rows = talker.text_rows(np.append(layout.trailing, pad))

    def row(self, frame: int) -> np.ndarray:
        return np.asarray(self._rows[min(frame, len(self._rows) - 1)])
