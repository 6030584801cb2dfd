"""The CodePredictor's frame loop under every setting, over the same frames: timed in turns, then examined.

Turns are taken frame by frame, each setting decoding the frame once, in an order that rotates: what else the machine
does meanwhile falls on all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cpspec_trt.bench.counting import CountingPolicy
from cpspec_trt.bench.inputs import FrameInputs
from cpspec_trt.bench.metering import Meter, MeteredEngine, MeteredLibrary
from cpspec_trt.bench.set_acceptance import SetAcceptance
from cpspec_trt.bench.settings import Setting, policy_of
from cpspec_trt.engines.engine import Engine
from cpspec_trt.errors import SpeculationRefused
from cpspec_trt.files.engine_config import MAX_VERIFY_ROWS, CodePredictorConfig
from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.files.rebuild import rebuild_command
from cpspec_trt.files.sidecars import CodePredictorTables
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.native_library import NativeLibrary
from cpspec_trt.speculation.drafting import Drafting
from cpspec_trt.speculation.fallback import resolve
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.policy import Policy
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus
from cpspec_trt.stages.code_predictor import CodePredictorStage
from cpspec_trt.stages.pass_times import measure_passes


@dataclass(frozen=True, slots=True)
class PredictorParts:
    """One CodePredictor, opened.

    Attributes:
        engine: on ONNX Runtime.
        config: its config.
        tables: its codec embeddings and heads.
        codec_embedding: float32 [vocab, talker_hidden], the Talker's table for c0.
        directory: where the engine lies, for messages.
    """

    engine: Engine
    config: CodePredictorConfig
    tables: CodePredictorTables
    codec_embedding: np.ndarray
    directory: Path

    @property
    def cache_bytes(self) -> int:
        """Bytes of the KV cache, all of which a pass reads."""
        decoder, slots = self.config.decoder, self.engine.manifest.max_kv_capacity
        return 2 * 4 * decoder.num_hidden_layers * decoder.num_key_value_heads * decoder.head_dim * slots

    def stage(self, engine: Engine | None = None) -> CodePredictorStage:
        """A stage for one sequence, over the engine or one that stands for it."""
        return CodePredictorStage(engine or self.engine, self.config, self.tables, self.codec_embedding)


@dataclass(slots=True)
class LoopTimes:
    """What the timed turns of one setting gave.

    Attributes:
        start: seconds of each frame's first pass, per repetition.
        rest: seconds of the rounds behind it, per repetition.
        statistics: counters over all repetitions.
    """

    statistics: SpeculationStatistics
    start: list[list[float]] = field(default_factory=list)
    rest: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Examined:
    """What an untimed pass over the frames found out about one setting.

    Attributes:
        codes: int64 [F, G].
        counts: rounds, and acceptance by depth and offset.
        passes: of the body.
        engine: seconds per frame inside the engine.
        heads: in heads, filters and draws (operations ``draft``, ``score``, ``draw_candidates``).
        acceptance: in every other kernel.
        host: outside both: Python, masks, embeddings, checks.
    """

    codes: np.ndarray
    counts: CountingPolicy
    passes: int
    engine: list[float]
    heads: list[float]
    acceptance: list[float]
    host: list[float]


_HEADS = ("grouped_heads", "draft", "score", "draw_candidates")


class FrameLoop:
    """Decodes the same frames under every setting."""

    def __init__(self, parts: PredictorParts, settings: Sequence[Setting], acceptance: float | None) -> None:
        """Open a stage, measure what passes take, and bind a decoder per setting.

        Args:
            parts: the CodePredictor.
            settings: to compare.
            acceptance: see ``set_acceptance``; None leaves the model's own.

        Raises:
            SpeculationRefused: a setting would fall back to the autoregressive loop.
            EngineError: a tree does not fit the engine.
        """
        self.parts, self.settings = parts, settings
        self.stage = parts.stage()
        self._acceptance = acceptance
        self._kernels = self.kernels_over(default_kernels().library)
        self.measured_costs = [self._measure_costs()]
        self.statuses = {setting: self._status(setting) for setting in settings}
        self._tolerances = {setting: self._tolerance(setting.drafting) for setting in settings}
        self._decoders = {
            setting: self.decoder(setting, self._kernels, self.stage, self.policy(setting)) for setting in settings
        }

    @property
    def costs(self) -> PassCosts:
        """Medians over every time they were measured."""
        rows = self.measured_costs[0].rows
        seconds = np.median([each.seconds for each in self.measured_costs], axis=0)
        return PassCosts(
            rows,
            tuple(float(value) for value in seconds),
            float(np.median([each.head_seconds for each in self.measured_costs])),
        )

    def time(self, inputs: FrameInputs, repetitions: int) -> dict[Setting, LoopTimes]:
        """Decode every frame once per setting and repetition, after one frame that is not counted."""
        times = {setting: LoopTimes(SpeculationStatistics(self.statuses[setting])) for setting in self.settings}
        self.stage.reset()
        for setting in self.settings:
            self._decode(setting, inputs, 0, SpeculationStatistics(self.statuses[setting]))
        for repetition in range(repetitions):
            for each in times.values():
                each.start.append([])
                each.rest.append([])
            for setting in self.settings:
                self._decoders[setting].reset()
            for frame in range(len(inputs)):
                for turn in range(len(self.settings)):
                    setting = self.settings[(turn + frame + repetition) % len(self.settings)]
                    found = times[setting]
                    start, rest = self._decode(setting, inputs, frame, found.statistics)
                    found.start[-1].append(start)
                    found.rest[-1].append(rest)
            self.measured_costs.append(self._measure_costs())
        return times

    def examine(self, inputs: FrameInputs) -> dict[Setting, Examined]:
        """Decode every frame once per setting, in turns, with everything metered and counted."""
        benches = [_Examination(self, setting, inputs) for setting in self.settings]
        for frame in range(len(inputs)):
            for turn in range(len(benches)):
                benches[(turn + frame) % len(benches)].decode(frame)
        return {each.setting: each.found() for each in benches}

    def _decode(
        self, setting: Setting, inputs: FrameInputs, frame: int, statistics: SpeculationStatistics
    ) -> tuple[float, float]:
        """Seconds of the first pass and of the rest of a frame, without those spent on setting the acceptance."""
        codes = np.empty((1, self.stage.groups), np.int64)
        before = _seconds_of_setting(self._kernels)
        began = time.perf_counter()
        self.run_frame(self._decoders[setting], inputs, frame, codes, statistics)
        whole = time.perf_counter() - began - (_seconds_of_setting(self._kernels) - before)
        start = self.stage.prefill_seconds
        return start, whole - start

    @staticmethod
    def run_frame(
        decoder: FrameDecoder, inputs: FrameInputs, frame: int, codes: np.ndarray, statistics: SpeculationStatistics
    ) -> None:
        """Decode one frame into ``codes`` (int64 [1, G])."""
        one = slice(frame, frame + 1)
        decoder.decode(
            inputs.hidden[one],
            inputs.first_codes[one],
            inputs.seeds[one],
            inputs.frames[one],
            inputs.filters[one],
            codes,
            [statistics],
        )

    def kernels_over(self, library: NativeLibrary) -> NativeKernels:
        """The kernels that decode: the library's, with the set acceptance where there is one."""
        return NativeKernels(library) if self._acceptance is None else SetAcceptance(library, self._acceptance)

    def _measure_costs(self) -> PassCosts:
        return measure_passes(self.stage, self._kernels, self.parts.tables.lm_heads)

    def policy(self, setting: Setting) -> Policy:
        """A new one for a setting."""
        return policy_of(setting.drafting, self.stage.groups, self.stage.max_rows, self.measured_costs[0])

    def _status(self, setting: Setting) -> SpeculationStatus:
        drafting, stage = setting.drafting, self.stage
        wide = {"max_verify_rows": max(MAX_VERIFY_ROWS, drafting.rows)}
        rebuild = rebuild_command(self.parts.directory, self.parts.engine.manifest, limits=wide)
        status = resolve(drafting, stage.groups, stage.codebook, stage.max_rows, rebuild)
        if status.reason is not None:
            raise SpeculationRefused(f"the setting {setting.name} cannot be measured: {status.reason}")
        return status

    def decoder(
        self, setting: Setting, kernels: NativeKernels, stage: CodePredictorStage, policy: Policy
    ) -> FrameDecoder:
        """A new decoder for a setting."""
        return FrameDecoder(
            kernels,
            stage,
            self.parts.tables.lm_heads,
            setting.drafting.window,
            rule=setting.drafting.rule,
            tolerance=self._tolerances[setting],
            policy=policy,
        )

    def _tolerance(self, drafting: Drafting) -> float:
        """As the runtime finds it at load: of the largest chain and of the tree."""
        if drafting.window == 0:
            return 0.0
        chain = self.stage.probe(drafting.window).tolerance
        return chain if drafting.tree is None else max(chain, self.stage.probe_tree(drafting.tree).tolerance)


class _Examination:
    """One setting with everything metered and counted; its first frame is decoded once more before, to bind passes."""

    def __init__(self, loop: FrameLoop, setting: Setting, inputs: FrameInputs) -> None:
        self.setting = setting
        self._loop, self._inputs, self._meter = loop, inputs, Meter()
        stage = loop.parts.stage(MeteredEngine(loop.parts.engine, self._meter))
        self._kernels = loop.kernels_over(MeteredLibrary(self._meter))
        self._counts = CountingPolicy(loop.policy(setting), stage.groups)
        self._decoder = loop.decoder(setting, self._kernels, stage, self._counts)
        self._codes = np.empty((len(inputs), stage.groups), np.int64)
        self._engine: list[float] = []
        self._heads: list[float] = []
        self._acceptance: list[float] = []
        self._host: list[float] = []
        self._run(0, SpeculationStatistics(loop.statuses[setting]))
        self._counts.clear()
        self._statistics = SpeculationStatistics(loop.statuses[setting])

    def decode(self, frame: int) -> None:
        """Decode a frame."""
        self._meter.reset()
        set_before = _seconds_of_setting(self._kernels)
        began = time.perf_counter()
        self._run(frame, self._statistics)
        whole = time.perf_counter() - began - (_seconds_of_setting(self._kernels) - set_before)
        heads = sum(self._meter.kernels[name] for name in _HEADS)
        other = sum(self._meter.kernels.values()) - heads
        self._engine.append(self._meter.engine)
        self._heads.append(heads)
        self._acceptance.append(other)
        self._host.append(whole - self._meter.engine - heads - other)

    def found(self) -> Examined:
        """What came out."""
        passes = self._statistics.passes
        return Examined(self._codes, self._counts, passes, self._engine, self._heads, self._acceptance, self._host)

    def _run(self, frame: int, statistics: SpeculationStatistics) -> None:
        self._loop.run_frame(self._decoder, self._inputs, frame, self._codes[frame : frame + 1], statistics)


def _seconds_of_setting(kernels: NativeKernels) -> float:
    return kernels.seconds if isinstance(kernels, SetAcceptance) else 0.0
