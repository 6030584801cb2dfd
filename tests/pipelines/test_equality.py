"""Greedy codes are the same bits with and without speculation, and garbage in the KV cache changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt import TTS
from cpspec_trt.builder.build import build_checkpoint
from cpspec_trt.builder.profiles import CODE2WAV, CODE_PREDICTOR, TALKER
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import CodePredictorConfig, read_config_of
from cpspec_trt.files.sidecars import EMBEDDING, read_code_predictor_sidecars
from cpspec_trt.files.tensors import open_tensors
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.policy import Policy
from cpspec_trt.speculation.rules import DEFAULT_RULE, RULES, Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus
from cpspec_trt.stages.code_predictor import CodePredictorStage
from cpspec_trt.synthetic.spec import SPECS
from cpspec_trt.synthetic.tts import write_tts_checkpoint
from tests.conftest import TEST_LIMITS, Maker

GREEDY = FilterParameters(temperature=1.0, top_k=50, top_p=1.0, do_sample=False)
SAMPLED = FilterParameters(temperature=0.9, top_k=50, top_p=1.0)
WINDOWS = {2: 0.32, 3: 0.2, 4: 0.14, 5: 0.12, 6: 0.08, 7: 0.08, 8: 0.06}  # share of the frames: wide ones cost more
CHECKPOINTS = [("tiny", 54), ("tiny_square", 14), ("tiny_design", 12)]


class Frames:
    """A CodePredictor over its real engine, fed with random Talker rows of a realistic size."""

    def __init__(
        self,
        engines: Path,
        stage: type[CodePredictorStage] = CodePredictorStage,
        batch: int = 1,
        threads: int | None = 1,
    ) -> None:
        directory = engines / "code_predictor"
        config = read_config_of(directory, CodePredictorConfig)
        self.tables = read_code_predictor_sidecars(directory, config)
        table = open_tensors(engines / "talker" / EMBEDDING, EngineError)
        codec_embedding = table.read("embedding", table.entry("embedding").shape)
        engine = open_engine(directory, threads)
        self.stage = stage(engine, config, self.tables, codec_embedding, batch)
        self.width = config.talker_hidden_size
        self.batch = batch

    def decode(
        self,
        frames: Sequence[int],
        window: int,
        filters: FilterParameters = GREEDY,
        rule: Rule = RULES[DEFAULT_RULE],
        policy: Policy | None = None,
    ) -> tuple[np.ndarray, SpeculationStatistics]:
        """Codes [len(frames), batch, G] of the given frame indices, and the counters of batch row 0."""
        heads = self.tables.lm_heads
        decoder = FrameDecoder(default_kernels(), self.stage, heads, window, self.batch, rule, policy=policy)
        counters = [SpeculationStatistics(SpeculationStatus(window, window)) for _ in range(self.batch)]
        codes = np.empty((len(frames), self.batch, self.stage.groups), np.int64)
        for position, frame in enumerate(frames):
            generator = np.random.default_rng([7, frame])
            hidden = generator.standard_normal((self.batch, self.width)).astype(np.float32)
            first = generator.integers(self.stage.codebook, size=self.batch)
            seeds, index = np.arange(self.batch, dtype=np.uint64), np.full(self.batch, frame)
            decoder.decode(hidden, first, seeds, index, [filters] * self.batch, codes[position], counters)
        return codes, counters[0]


def assert_equal_for_every_window(engines: Path, frames: int) -> None:
    """Decode ``frames`` frames speculatively, shared out among the windows, and compare with the plain loop.

    Four frames go together, which costs little more than one and is bit-equal to each alone (tested below).
    """
    found = Frames(engines, batch=4)
    accepted, begin = 0, 0
    for window, part in WINDOWS.items():
        share = range(begin, begin + max(round(part * frames / found.batch), 1))
        begin = share.stop
        plain, _ = found.decode(share, 0)
        speculative, counters = found.decode(share, window)
        assert np.array_equal(plain, speculative), f"window {window}"
        accepted += sum(counters.accepted)
    assert accepted > 0, "no draft was ever accepted, so acceptance was not tested"


@pytest.mark.parametrize(("spec", "seed"), CHECKPOINTS)
def test_greedy_codes_are_bit_equal_for_every_window(synthetic_engines: Maker, spec: str, seed: int) -> None:
    assert_equal_for_every_window(synthetic_engines(spec, seed), 210)


def test_greedy_codes_of_qwen3_omni_are_bit_equal_for_every_window(omni_engines: Maker) -> None:
    assert_equal_for_every_window(omni_engines("tiny", 1), 210)


def test_greedy_codes_of_the_trained_model_are_bit_equal_for_every_window(demo_engines: Path) -> None:
    assert_equal_for_every_window(demo_engines, 210)


def test_greedy_codes_of_a_code_predictor_of_real_size_are_bit_equal(synthetic_engines: Maker) -> None:
    assert_equal_for_every_window(synthetic_engines("real_code_predictor", 1), 200)


@pytest.mark.long
def test_greedy_codes_of_a_code_predictor_of_real_size_are_bit_equal_at_length(synthetic_engines: Maker) -> None:
    assert_equal_for_every_window(synthetic_engines("real_code_predictor", 1), 2000)


def test_greedy_codes_are_bit_equal_with_the_default_number_of_threads(synthetic_engines: Maker) -> None:
    found = Frames(synthetic_engines("real_code_predictor", 1), threads=None)
    plain, _ = found.decode(range(2), 0)
    for window in (2, 3, 8):
        assert np.array_equal(plain, found.decode(range(2), window)[0]), f"window {window}"


class InexactStage(CodePredictorStage):
    """Rounds passes of several rows differently from single steps, as some backends do."""

    def verify(self, codes: np.ndarray) -> np.ndarray:
        rows = super().verify(codes)
        return rows if codes.shape[1] == 1 else rows * np.float32(1 + 2**-20)


@pytest.mark.parametrize(("stage", "exact"), [(CodePredictorStage, True), (InexactStage, False)])
def test_the_probe_tells_exact_rows_from_inexact_ones(
    demo_engines: Path, stage: type[CodePredictorStage], exact: bool
) -> None:
    found = Frames(demo_engines, stage).stage
    probes = [found.probe(rows) for rows in WINDOWS]
    assert [probe.exact for probe in probes] == [exact] * len(WINDOWS)
    assert [probe.tolerance == 0 for probe in probes] == [exact] * len(WINDOWS)


class PoisonedStage(CodePredictorStage):
    """Fills every KV row beyond the logical length with large finite values before each pass.

    A masked NaN would spread (0 * NaN is NaN), so the poison is finite; keys aligned with the queries
    would dominate every softmax if a mask let them through.
    """

    def verify(self, codes: np.ndarray) -> np.ndarray:
        self.poison()
        return super().verify(codes)

    def start_frame(self, talker_hidden: np.ndarray, first_codes: np.ndarray) -> np.ndarray:
        self._lengths.fill(0)
        self.poison()
        return super().start_frame(talker_hidden, first_codes)

    def poison(self) -> None:
        generator = np.random.default_rng(int(self._lengths.sum()))
        for array in self._cache.arrays.values():
            for row, length in enumerate(self._lengths):
                beyond = array[row, :, length:]
                aligned = array[row, :, :1] * np.float32(1e4)
                random = generator.choice([-1e6, 1e6], size=beyond.shape).astype(np.float32)
                beyond[:] = np.where(generator.random(beyond.shape) < 0.5, random, aligned)


@pytest.mark.parametrize("window", [0, 2, 3, 8])
@pytest.mark.parametrize("filters", [GREEDY, SAMPLED], ids=["greedy", "rejection"])
def test_poisoned_rows_beyond_the_logical_length_change_no_code(
    demo_engines: Path, window: int, filters: FilterParameters
) -> None:
    clean, _ = Frames(demo_engines).decode(range(6), window, filters)
    poisoned, _ = Frames(demo_engines, PoisonedStage).decode(range(6), window, filters)
    assert np.array_equal(clean, poisoned)


def test_poisoned_rows_beyond_the_logical_length_change_no_bit_of_a_hidden_row(demo_engines: Path) -> None:
    rows = []
    for stage in (CodePredictorStage, PoisonedStage):
        found = Frames(demo_engines, stage)
        generator = np.random.default_rng(3)
        hidden = generator.standard_normal((1, found.width)).astype(np.float32)
        taken = [found.stage.start_frame(hidden, np.array([5])).copy()]
        for width, keep in ((3, 1), (3, 3), (2, 0), (8, 2), (1, 1)):
            codes = generator.integers(found.stage.codebook, size=(1, width))
            taken.append(found.stage.verify(codes)[:, :].copy())
            found.stage.commit(np.array([keep]))
        rows.append(taken)
    for clean, poisoned in zip(*rows, strict=True):
        assert np.array_equal(clean, poisoned)


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("filters", [GREEDY, SAMPLED], ids=["greedy", "rejection"])
def test_a_row_of_a_batch_has_the_codes_it_has_alone(
    demo_engines: Path, window: int, filters: FilterParameters
) -> None:
    batch, _ = Frames(demo_engines, batch=3).decode(range(4), window, filters)
    alone = Frames(demo_engines)
    for row in range(3):
        decoder = FrameDecoder(default_kernels(), alone.stage, alone.tables.lm_heads, window)
        for frame in range(4):
            generator = np.random.default_rng([7, frame])
            hidden = generator.standard_normal((3, alone.width)).astype(np.float32)
            first = generator.integers(alone.stage.codebook, size=3)
            codes = np.empty((1, alone.stage.groups), np.int64)
            counters = [SpeculationStatistics(SpeculationStatus(window, window))]
            seeds, index = np.array([row], np.uint64), np.array([frame])
            decoder.decode(hidden[row : row + 1], first[row : row + 1], seeds, index, [filters], codes, counters)
            assert np.array_equal(codes[0], batch[frame, row])


def test_a_codebook_beyond_the_kernels_bound_speaks_without_speculation(tmp_path: Path) -> None:
    tiny = SPECS["tiny"]
    large = replace(
        tiny,
        talker=replace(tiny.talker, vocab_size=4100 + 1024),
        code_predictor=replace(tiny.code_predictor, vocab_size=4100),
    )
    write_tts_checkpoint(tmp_path / "checkpoint", large, 3)
    limits = dict.fromkeys((TALKER, CODE_PREDICTOR, CODE2WAV), TEST_LIMITS)
    build_checkpoint(tmp_path / "checkpoint", tmp_path / "engines", limits, "onnxruntime")
    speech = TTS(tmp_path / "engines", threads=1).speak("hello world", speaker="ryan", speculate=3, max_frames=3)
    assert speech.codes.shape == (3, 16)
    assert speech.statistics.status.effective == 0
    assert speech.statistics.status.reason == "the codebook has 4100 codes, the kernels take at most 4096"
