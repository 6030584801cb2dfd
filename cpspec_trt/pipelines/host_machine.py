"""The machine over host memory: engines of ONNX Runtime, kernels of the CPU library."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from cpspec_trt.devices.device import DeviceWork
from cpspec_trt.engines.engine import Engine
from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.files.sidecars import CodePredictorTables, TalkerTables
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.rules_protocol import RuleKernels
from cpspec_trt.pipelines.engine_set import SpeechConfigs
from cpspec_trt.pipelines.machine import FramePlan, SpeechRules, Vocoder
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
from cpspec_trt.speculation.fallback import MAX_CODEBOOK
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.policy import Widths
from cpspec_trt.speculation.statistics import SpeculationStatistics
from cpspec_trt.speculation.tree import tree_rows
from cpspec_trt.stages.code_predictor import CodePredictorStage
from cpspec_trt.stages.pass_times import measure_passes
from cpspec_trt.stages.row_probe import RowProbe
from cpspec_trt.stages.talker import TalkerStage
from cpspec_trt.stages.talker_rows import TalkerRows
from cpspec_trt.text.layout import PromptLayout


class HostSpeechMachine:
    """A ``SpeechMachine`` whose calls are done when they return."""

    def __init__(
        self,
        configs: SpeechConfigs,
        talker: Engine,
        code_predictor: Engine,
        vocoder: Vocoder | None,
        talker_tables: TalkerTables,
        tables: CodePredictorTables,
        rules: SpeechRules,
        kernels: RuleKernels | None = None,
    ) -> None:
        """Open the stages.

        ``kernels`` stand in for those that the vocabularies call for.

        Raises:
            EngineError: an engine does not fit its config, or the kernels' library is missing.
        """
        self._config, self._rules, self._tables = configs.talker, rules, tables
        self._kernels = kernels or _kernels_for(self._config.decoder.vocab_size, tables.lm_heads.shape[1])
        self._rows = TalkerRows(talker_tables, rules.tts_pad_token_id)
        self._talker = TalkerStage(talker, self._config.decoder)
        codec_embedding = talker_tables.codec_embedding
        self._predictor = CodePredictorStage(code_predictor, configs.code_predictor, tables, codec_embedding)
        self._embeddings = [codec_embedding, *tables.codec_embeddings]
        self._decoders: dict[FramePlan, FrameDecoder] = {}
        self._vocoder = vocoder
        self._times = StageTimes()
        self._frame_index = np.empty(1, np.int64)
        self._feedback = np.empty_like(self._talker.hidden)
        self._first = np.empty(1, np.int64)
        self._request: _Request

    @property
    def groups(self) -> int:
        """See ``SpeechMachine``."""
        return self._predictor.groups

    @property
    def codebook(self) -> int:
        """See ``SpeechMachine``."""
        return self._predictor.codebook

    @property
    def max_rows(self) -> int:
        """See ``SpeechMachine``."""
        return self._predictor.max_rows

    @property
    def max_tree_rows(self) -> int:
        """See ``SpeechMachine``."""
        return self._predictor.max_rows

    @property
    def sample_rate(self) -> int | None:
        """See ``SpeechMachine``."""
        return self._vocoder.sample_rate if self._vocoder is not None else None

    def probe(self, window: int) -> RowProbe:
        """See ``SpeechMachine.probe``."""
        return self._predictor.probe(window)

    def probe_trees(self, choices: Sequence[Widths]) -> RowProbe:
        """See ``SpeechMachine.probe_trees``. The largest tells of all: terms are added in the order of their slots."""
        return self._predictor.probe_tree(max(choices, key=tree_rows))

    def measure_costs(self) -> PassCosts:
        """See ``SpeechMachine.measure_costs``."""
        return measure_passes(self._predictor, self._kernels, self._tables.lm_heads)

    def prepare(self, plan: FramePlan) -> None:
        """See ``SpeechMachine.prepare``."""
        if plan not in self._decoders:
            self._decoders[plan] = FrameDecoder(
                self._kernels,
                self._predictor,
                self._tables.lm_heads,
                plan.window,
                rule=plan.rule,
                tolerance=plan.tolerance,
                policy=plan.policy(self.groups, self.max_tree_rows),
            )

    def begin(self, layout: PromptLayout, sampling: EffectiveSampling, max_frames: int, plan: FramePlan) -> None:
        """See ``SpeechMachine.begin``."""
        self.prepare(plan)
        self._predictor.reset()
        self._decoders[plan].reset()
        vocabulary, eos = self._config.decoder.vocab_size, self._config.codec_eos_id
        sampler = TalkerSampler(self._kernels, vocabulary, eos, self._rules.min_new_tokens, [sampling])
        with self._times.measure(TALKER_PREFILL):
            self._request = _Request(sampling, sampler, self._decoders[plan], self._rows.feed(layout))
            self._talker.start([self._rows.prompt(layout)])

    def first_code(self, frame: int) -> int:
        """See ``SpeechMachine.first_code``."""
        self._first = self._request.sampler.draw(self._talker.logits, frame)
        return int(self._first[0])

    def finish_frame(self, frame: int, codes: np.ndarray, statistics: SpeculationStatistics) -> None:
        """See ``SpeechMachine.finish_frame``."""
        began, request = time.perf_counter(), self._request
        self._frame_index[0] = frame
        request.decoder.decode(
            self._talker.hidden,
            self._first,
            request.seeds,
            self._frame_index,
            [request.sampling.code_predictor],
            codes,
            [statistics],
        )
        self._kernels.sum_codec_embeddings(self._embeddings, codes, self._feedback)
        prefill = self._predictor.prefill_seconds
        self._times.add(CODE_PREDICTOR_PREFILL, prefill)
        self._times.add(CODE_PREDICTOR_GENERATION, time.perf_counter() - began - prefill)

    def advance(self, frame: int) -> None:
        """See ``SpeechMachine.advance``."""
        with self._times.measure(TALKER_GENERATION):
            self._feedback += self._request.text_row(frame)
            self._talker.step(self._feedback)

    def decode(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        """See ``SpeechMachine.decode``."""
        assert self._vocoder is not None  # the pipeline asks for ``sample_rate`` first
        with self._times.measure(CODE2WAV):
            self._vocoder.reset()
            return self._vocoder.decode(codes, chunk)

    def take_times(self) -> StageTimes:
        """See ``SpeechMachine.take_times``."""
        taken, self._times = self._times, StageTimes()
        return taken

    def take_work(self) -> DeviceWork | None:
        """See ``SpeechMachine.take_work``."""
        return None


class _Request:
    """The request in work."""

    def __init__(
        self, sampling: EffectiveSampling, sampler: TalkerSampler, decoder: FrameDecoder, text: np.ndarray
    ) -> None:
        self.sampling, self.sampler, self.decoder = sampling, sampler, decoder
        self.seeds = np.array([sampling.seed], np.uint64)
        self._text = text

    def text_row(self, frame: int) -> np.ndarray:
        """The text row that joins a frame: the trailing rows, then tts_pad's."""
        return np.asarray(self._text[min(frame, len(self._text) - 1)])


def _kernels_for(talker_vocabulary: int, codebook: int) -> RuleKernels:
    """The native kernels keep a row in fast memory; beyond their bound the readable ones decode, slowly but right."""
    return default_kernels() if max(talker_vocabulary, codebook) <= MAX_CODEBOOK else OracleKernels()
