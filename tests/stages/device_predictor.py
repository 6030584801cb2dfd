"""The CodePredictor over the simulated GPU and over host memory, fed with the same random Talker rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cpspec_trt.devices.device import Device
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import CodePredictorConfig, read_config_of
from cpspec_trt.files.sidecars import EMBEDDING, CodePredictorTables, read_code_predictor_sidecars
from cpspec_trt.files.tensors import open_tensors
from cpspec_trt.kernels.device import DeviceKernels
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.policy import FixedPolicy, Policy, Widths, is_chain
from cpspec_trt.speculation.rules import RULES, Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus
from cpspec_trt.stages.code_predictor import CodePredictorStage
from cpspec_trt.stages.device_code_predictor import DeviceCodePredictor
from cpspec_trt.stages.device_frame_start import FrameStart
from cpspec_trt.stages.device_frames import DeviceFrameDecoder, cut_short
from cpspec_trt.stages.device_plans import UNGUARDED, Guard
from cpspec_trt.stages.device_round import DeviceRound
from cpspec_trt.stages.device_tree_round import DeviceTreeRound
from cpspec_trt.stages.device_verify import VerifyRound

GREEDY = FilterParameters(temperature=1.0, top_k=50, top_p=1.0, do_sample=False)
SAMPLED = FilterParameters(temperature=0.9, top_k=50, top_p=1.0)
REJECTION = RULES["rejection"]
Frames = tuple[np.ndarray, list[SpeculationStatistics]]


def config_of(engines: Path) -> CodePredictorConfig:
    return read_config_of(engines / "code_predictor", CodePredictorConfig)


def tables_of(engines: Path) -> tuple[CodePredictorTables, np.ndarray]:
    """The CodePredictor's tables, and the Talker's."""
    table = open_tensors(engines / "talker" / EMBEDDING, EngineError)
    codec_embedding = table.read("embedding", table.entry("embedding").shape)
    return read_code_predictor_sidecars(engines / "code_predictor", config_of(engines)), codec_embedding


def talker_rows(engines: Path, frame: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Hidden rows float32 [batch, T] and c0 int64 [batch]."""
    config, generator = config_of(engines), np.random.default_rng([7, frame])
    hidden = generator.standard_normal((batch, config.talker_hidden_size)).astype(np.float32)
    return hidden, generator.integers(config.decoder.vocab_size, size=batch)


def counters(window: int, batch: int) -> list[SpeculationStatistics]:
    return [SpeculationStatistics(SpeculationStatus(window, window)) for _ in range(batch)]


class DeviceFrames:
    """A CodePredictor on a device, and what stands in for the Talker's results."""

    def __init__(self, engines: Path, device: Device, batch: int = 1) -> None:
        self.engines, self.device, self.batch = engines, device, batch
        self.tables, codec_embedding = tables_of(engines)
        engine = open_engine(engines / "code_predictor", device=device)
        assert isinstance(engine, TensorRTEngine)
        kernels = DeviceKernels(device)
        self.predictor = DeviceCodePredictor(engine, config_of(engines), self.tables, codec_embedding, kernels, batch)
        width = config_of(engines).talker_hidden_size
        self.hidden = device.array((batch, width), np.dtype(np.float32))
        self.first = device.array((batch,), np.dtype(np.int64))
        self.start = FrameStart(self.predictor, self.hidden, self.first)
        self._rounds: dict[tuple[Widths, str, bool], VerifyRound] = {}

    def round(self, widths: Widths, rule: Rule = REJECTION, of_logits: bool = False) -> VerifyRound:
        key = widths, rule.name, of_logits
        if key not in self._rounds:
            if is_chain(widths):
                self._rounds[key] = DeviceRound(self.predictor, len(widths), rule, of_logits)
            else:
                self._rounds[key] = DeviceTreeRound(self.predictor, widths, rule, of_logits)
        return self._rounds[key]

    def decode(
        self,
        frames: Sequence[int],
        window: int,
        filters: Sequence[FilterParameters],
        rule: Rule = REJECTION,
        guard: Guard = UNGUARDED,
        policy: Policy | None = None,
    ) -> Frames:
        """Codes [frames, batch, G], and the counters of each row."""
        policy = policy or FixedPolicy((1,) * max(window - 1, 0))
        rounds = {widths: self.round(widths, rule, guard.of_logits) for widths in cut_short(policy.largest)}
        decoder = DeviceFrameDecoder(self.predictor, self.start, rounds, window, rule, policy)
        for row, each in enumerate(filters):
            decoder.parameters.set(row, each, row, guard.tolerance)
        found = counters(window, self.batch)
        codes = np.empty((len(frames), self.batch, self.predictor.groups), np.int64)
        for position, frame in enumerate(frames):
            hidden, first = talker_rows(self.engines, frame, self.batch)
            self.device.write(self.hidden, hidden)
            self.device.write(self.first, first)
            decoder.start(frame, lambda: None)
            self.device.synchronise()
            decoder.finish(filters, codes[position], found)
        return codes, found


def host_frames(
    engines: Path,
    frames: Sequence[int],
    window: int,
    filters: Sequence[FilterParameters],
    rule: Rule = REJECTION,
    tolerance: float = 0.0,
    policy: Policy | None = None,
) -> Frames:
    """The same over host memory."""
    tables, codec_embedding = tables_of(engines)
    batch, engine = len(filters), open_engine(engines / "code_predictor", threads=1)
    stage = CodePredictorStage(engine, config_of(engines), tables, codec_embedding, batch)
    decoder = FrameDecoder(default_kernels(), stage, tables.lm_heads, window, batch, rule, tolerance, policy)
    found = counters(window, batch)
    codes = np.empty((len(frames), batch, stage.groups), np.int64)
    for position, frame in enumerate(frames):
        hidden, first = talker_rows(engines, frame, batch)
        seeds, index = np.arange(batch, dtype=np.uint64), np.full(batch, frame)
        decoder.decode(hidden, first, seeds, index, filters, codes[position], found)
    return codes, found
