"""The machine over a device: Talker's step, c0, the start of a frame and its first round go out in one breath.

Frame t+1 is begun as soon as frame t is complete, before anyone asks for its c0. If that turns out to be EOS, what
the CodePredictor did with it is dropped; that happens once a request.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpspec_trt.devices.device import Device, DeviceWork
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.errors import UnsupportedError
from cpspec_trt.files.engine_config import MAX_VERIFY_ROWS
from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.files.sidecars import CodePredictorTables, TalkerTables
from cpspec_trt.kernels.device import DeviceKernels
from cpspec_trt.kernels.protocol import FilterParameters
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
from cpspec_trt.speculation.fallback import MAX_CODEBOOK
from cpspec_trt.speculation.policy import Widths, is_chain
from cpspec_trt.speculation.rules import DEFAULT_RULE, RULES, Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics
from cpspec_trt.speculation.tree import TreeLayout
from cpspec_trt.stages.device_code_predictor import DeviceCodePredictor
from cpspec_trt.stages.device_frame_start import FrameStart
from cpspec_trt.stages.device_frames import DeviceFrameDecoder, cut_short
from cpspec_trt.stages.device_pass_times import measure_rounds
from cpspec_trt.stages.device_plans import guard_for
from cpspec_trt.stages.device_round import DeviceRound
from cpspec_trt.stages.device_talker import DeviceTalker
from cpspec_trt.stages.device_tree_round import DeviceTreeRound
from cpspec_trt.stages.device_verify import VerifyRound
from cpspec_trt.stages.row_probe import RowProbe
from cpspec_trt.stages.talker_rows import TalkerRows
from cpspec_trt.text.layout import PromptLayout

# Every tree that may be chosen round by round is a graph of its own, captured before the first request; up to this many
# rows there are 15 of them.
_MAX_ADAPTIVE_ROWS = 16


class DeviceSpeechMachine:
    """A ``SpeechMachine`` over TensorRT engines that share one device."""

    def __init__(
        self,
        configs: SpeechConfigs,
        talker: TensorRTEngine,
        code_predictor: TensorRTEngine,
        vocoder: Vocoder | None,
        talker_tables: TalkerTables,
        tables: CodePredictorTables,
        rules: SpeechRules,
    ) -> None:
        """Upload the tables, allocate every buffer, and capture the Talker's step and the start of a frame.

        Raises:
            EngineError: the CUDA kernels are missing, an engine does not fit its config, or there is no room.
            UnsupportedError: the vocabularies are larger than the kernels take.
        """
        config, largest = configs.talker, max(configs.talker.decoder.vocab_size, tables.lm_heads.shape[1])
        if largest > MAX_CODEBOOK:
            raise UnsupportedError(
                f"the codec vocabularies have up to {largest} codes, the CUDA kernels take {MAX_CODEBOOK}; "
                "build the engines with cpspec-build --backend onnxruntime"
            )
        self._device = device = talker.device
        kernels, codec_embedding = DeviceKernels(device), talker_tables.codec_embedding
        self._predictor = predictor = DeviceCodePredictor(
            code_predictor, configs.code_predictor, tables, codec_embedding, kernels
        )
        self._rows = TalkerRows(talker_tables, rules.tts_pad_token_id)
        self._talker = DeviceTalker(
            talker,
            config.decoder,
            kernels,
            predictor.embeddings,
            predictor.state.codes,
            config.codec_eos_id,
            rules.min_new_tokens,
        )
        self._start = FrameStart(predictor, self._talker.hidden, self._talker.first)
        self._vocoder = vocoder
        self._rounds: dict[tuple[Widths, str, bool], VerifyRound] = {}
        self._decoders: dict[tuple[FramePlan, bool], DeviceFrameDecoder] = {}
        self._marks = _Marks(device), _Marks(device)  # of even frames and of odd ones
        self._times = StageTimes()
        self._before = device.submitted.copy()
        self._decoder: DeviceFrameDecoder
        self._filters: FilterParameters
        self._max_frames = 0

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
        return min(self.max_rows, _MAX_ADAPTIVE_ROWS)

    @property
    def sample_rate(self) -> int | None:
        """See ``SpeechMachine``."""
        return self._vocoder.sample_rate if self._vocoder is not None else None

    def probe(self, window: int) -> RowProbe:
        """See ``SpeechMachine.probe``."""
        single, *several = (each.planned for each in self._chains(window))
        return self._predictor.probe(self._start.planned, single, several)

    def probe_trees(self, choices: Sequence[Widths]) -> RowProbe:
        """See ``SpeechMachine.probe_trees``. Every size may round in its own way, those at a frame's end included."""
        rule = RULES["coupled"]
        single, probes = self._round((), rule).planned, []
        for widths in cut_short(choices):
            if not is_chain(widths):
                tree, together = TreeLayout.of(widths), self._round(widths, rule).planned
                probes.append(self._predictor.probe_tree(self._start.planned, single, together, tree))
        return RowProbe(all(each.exact for each in probes), max(each.difference for each in probes))

    def measure_costs(self) -> PassCosts:
        """See ``SpeechMachine.measure_costs``."""
        return measure_rounds(self._predictor, self._chains(min(self.max_rows, MAX_VERIFY_ROWS)))

    def prepare(self, plan: FramePlan) -> None:
        """See ``SpeechMachine.prepare``: captures a graph for everything that a round may draft.

        Where rows are not exact, greedy requests have graphs of their own, which measure the gaps of logits.
        """
        self._decoder_for(plan, of_logits=False)
        if plan.tolerance:
            self._decoder_for(plan, of_logits=True)

    def begin(self, layout: PromptLayout, sampling: EffectiveSampling, max_frames: int, plan: FramePlan) -> None:
        """See ``SpeechMachine.begin``."""
        self._device.synchronise()  # a request that failed may have left work behind
        self._predictor.reset()
        self._filters, self._max_frames = sampling.code_predictor, max_frames
        guard = guard_for(self._filters, plan.rule, plan.tolerance)
        self._decoder = self._decoder_for(plan, guard.of_logits)
        self._decoder.reset()
        self._decoder.parameters.set(0, sampling.code_predictor, sampling.seed, guard.tolerance)
        self._marks[0].talker.record()
        self._talker.begin(0, self._rows.prompt(layout), self._rows.feed(layout), sampling)
        self._launch(0)

    def first_code(self, frame: int) -> int:
        """See ``SpeechMachine.first_code``. Waits for everything in the stream, the frame's first round included."""
        self._device.synchronise()
        own, before = self._marks[frame % 2], self._marks[(frame + 1) % 2]
        self._times.add(TALKER_GENERATION if frame else TALKER_PREFILL, own.start.seconds_since(own.talker))
        if frame:
            self._times.add(CODE_PREDICTOR_GENERATION, own.talker.seconds_since(before.rounds))
        return int(self._talker.first_codes()[0])

    def finish_frame(self, frame: int, codes: np.ndarray, statistics: SpeculationStatistics) -> None:
        """See ``SpeechMachine.finish_frame``."""
        marks = self._marks[frame % 2]
        self._times.add(CODE_PREDICTOR_PREFILL, marks.rounds.seconds_since(marks.start))
        self._decoder.finish([self._filters], codes, [statistics])

    def advance(self, frame: int) -> None:
        """See ``SpeechMachine.advance``. Returns while the next frame is under way."""
        self._marks[(frame + 1) % 2].talker.record()
        self._talker.advance(frame)
        self._launch(frame + 1)

    def decode(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        """See ``SpeechMachine.decode``."""
        assert self._vocoder is not None  # the pipeline asks for ``sample_rate`` first
        with self._times.measure(CODE2WAV):
            self._vocoder.reset()
            return self._vocoder.decode(codes, chunk)

    def take_times(self) -> StageTimes:
        """See ``SpeechMachine.take_times``. Times of Talker and CodePredictor are the GPU's."""
        taken, self._times = self._times, StageTimes()
        return taken

    def take_work(self) -> DeviceWork:
        """See ``SpeechMachine.take_work``."""
        work = self._device.work_since(self._before)
        self._before = self._device.submitted.copy()
        return work

    def _launch(self, frame: int) -> None:
        """Put the start of a frame and its first round behind the draw of its c0."""
        marks = self._marks[frame % 2]
        marks.start.record()
        if frame < self._max_frames:
            self._decoder.start(frame, marks.rounds.record)

    def _decoder_for(self, plan: FramePlan, of_logits: bool) -> DeviceFrameDecoder:
        if (plan, of_logits) not in self._decoders:
            policy = plan.policy(self.groups, self.max_tree_rows)
            rounds = {widths: self._round(widths, plan.rule, of_logits) for widths in cut_short(policy.largest)}
            decoder = DeviceFrameDecoder(self._predictor, self._start, rounds, plan.window, plan.rule, policy)
            self._decoders[plan, of_logits] = decoder
        return self._decoders[plan, of_logits]

    def _chains(self, window: int) -> list[VerifyRound]:
        """Rounds of 0 … window - 1 drafts."""
        return [self._round((1,) * drafts, RULES[DEFAULT_RULE]) for drafts in range(window)]

    def _round(self, widths: Widths, rule: Rule, of_logits: bool = False) -> VerifyRound:
        key = widths, rule.name, of_logits and widths != ()
        if key not in self._rounds:
            if is_chain(widths):
                self._rounds[key] = DeviceRound(self._predictor, len(widths), rule, of_logits)
            else:
                self._rounds[key] = DeviceTreeRound(self._predictor, widths, rule, of_logits)
        return self._rounds[key]


class _Marks:
    """Marks in the stream during a frame: where the Talker's pass begins, the frame's start, its rounds."""

    def __init__(self, device: Device) -> None:
        self.talker, self.start, self.rounds = device.event(), device.event(), device.event()
