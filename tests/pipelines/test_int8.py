"""Engines with int8 weights: speculation is exact with respect to the quantized model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpspec_trt import TTS, Omni
from cpspec_trt.builder.build import build_checkpoint
from cpspec_trt.builder.engine_options import EngineOptions
from cpspec_trt.builder.profiles import COMPONENTS
from cpspec_trt.files.manifest import read_manifest
from cpspec_trt.speculation.rules import RULES
from tests.conftest import DEMO_CHECKPOINT, TEST_LIMITS, Maker, write_once
from tests.pipelines.test_equality import SAMPLED, WINDOWS, Frames, assert_equal_for_every_window


def build(checkpoint: Path, engines: Path) -> Path:
    limits, options = dict.fromkeys(COMPONENTS, TEST_LIMITS), EngineOptions(precision="int8")
    return write_once(engines, lambda new: build_checkpoint(checkpoint, new, limits, "onnxruntime", options=options))


@pytest.fixture(scope="session")
def demo(shared_directory: Path) -> Path:
    return build(DEMO_CHECKPOINT, shared_directory / "int8-demo")


@pytest.fixture(scope="session")
def omni(shared_directory: Path, omni_checkpoint: Maker) -> Path:
    return build(omni_checkpoint("tiny", 1), shared_directory / "int8-omni")


@pytest.fixture(scope="session")
def real(shared_directory: Path, synthetic_checkpoint: Maker) -> Path:
    """A CodePredictor of the published size."""
    return build(synthetic_checkpoint("real_code_predictor", 1), shared_directory / "int8-real")


def test_decoders_are_int8_and_code2wav_is_not(demo: Path, omni: Path) -> None:
    for engines in (demo, omni):
        found = {path.name: read_manifest(path).precision for path in engines.iterdir() if path.is_dir()}
        assert found.pop("code2wav") == "fp32"
        assert set(found.values()) == {"int8"}


@pytest.mark.parametrize("name", ["demo", "omni"])
def test_greedy_codes_are_bit_equal_for_every_window(request: pytest.FixtureRequest, name: str) -> None:
    assert_equal_for_every_window(request.getfixturevalue(name), 210)


def test_greedy_codes_of_a_code_predictor_of_real_size_are_bit_equal(real: Path) -> None:
    assert_equal_for_every_window(real, 28)


def test_the_probe_finds_rows_exact(demo: Path) -> None:
    stage = Frames(demo).stage
    assert all(stage.probe(rows).exact for rows in WINDOWS)


@pytest.mark.parametrize("window", [3, 8])
def test_coupled_codes_are_those_of_the_plain_loop(demo: Path, window: int) -> None:
    found, frames = Frames(demo), range(8)
    plain, _ = found.decode(frames, 0, SAMPLED)
    coupled, counters = found.decode(frames, window, SAMPLED, RULES["coupled"])
    assert np.array_equal(plain, coupled)
    assert sum(counters.accepted) > 0


def test_frames_differ_from_those_of_the_fp32_model(demo: Path, demo_engines: Path) -> None:
    rows = []
    for engines in (demo, demo_engines):
        stage = Frames(engines).stage
        hidden = np.random.default_rng(3).standard_normal((1, Frames(engines).width)).astype(np.float32)
        rows.append(stage.start_frame(hidden, np.array([5])).copy())
    difference = np.abs(rows[0] - rows[1]).max()
    assert 1e-6 < difference < 0.1 * np.abs(rows[1]).max()


def test_a_voice_speaks_the_same_codes_with_and_without_drafts(demo: Path) -> None:
    with TTS(demo, threads=1) as voice:
        plain, fast = (
            voice.speak("Hello there.", speaker="ryan", seed=3, max_frames=12, speculate=window, rule="coupled")
            for window in (0, 3)
        )
    np.testing.assert_array_equal(plain.codes, fast.codes)
    assert np.abs(fast.samples).max() > 0.01


def test_an_answer_with_experts_in_int8_is_spoken(omni: Path) -> None:
    with Omni(omni, threads=1) as model:
        reply = model.answer([{"role": "user", "content": "Hello."}], seed=3, max_frames=4)
    assert reply.codes.shape[0] > 0
    assert np.isfinite(reply.samples).all()
