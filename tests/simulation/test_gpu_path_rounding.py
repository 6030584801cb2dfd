"""Engines that round: half precision speaks, and where passes of several rows round otherwise, the guard decides."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt import TTS
from cpspec_trt.api.speech import Speech
from cpspec_trt.stages.row_probe import RowProbe
from tests.conftest import DEMO_CHECKPOINT
from tests.golden_cases import SpeechCase, speech_cases
from tests.simulation.conftest import build_simulated
from tests.simulation.simulation import Simulation, simulated
from tests.simulation.tensorrt_context import Bound
from tests.simulation.tensorrt_engine import LoadedEngine

CASE: SpeechCase = next(case for case in speech_cases() if case.name == "demo_0_ryan")


def spoken(tts: TTS, window: int, frames: int) -> Speech:
    return tts.speak(
        CASE.text,
        speaker=CASE.speaker,
        language=CASE.language,
        repetition_penalty=CASE.repetition_penalty,
        max_frames=frames,
        greedy=True,
        speculate=window,
    )


@pytest.mark.parametrize("window", [0, 3])
def test_half_precision_engines_of_the_demo_voice_speak_the_codes_of_the_reference(
    simulation: Simulation, shared_directory: Path, window: int
) -> None:
    root = build_simulated(shared_directory / "device-engines-demo-fp16", DEMO_CHECKPOINT, precision="fp16")
    with TTS(root) as tts:
        speech = spoken(tts, window, 6)
    np.testing.assert_array_equal(speech.codes, CASE.codes[:6])
    assert np.isfinite(speech.samples).all()


SEEN = 1e-1  # large enough that codes change within a few frames
Bind = Callable[[LoadedEngine, Bound], Callable[[], None]]


def rounding_otherwise(real: Bind, size: float) -> Bind:
    """Passes of several rows give hidden rows that are off by random factors of that size, the same for every run."""

    def bound(engine: LoadedEngine, tensors: Bound) -> Callable[[], None]:
        run = real(engine, tensors)
        shape, address = tensors.get("hidden_states", ((), 0))
        if len(shape) != 3 or shape[1] == 1:
            return run
        factors = 1 + size * np.random.default_rng(5).uniform(-1, 1, shape).astype(np.float32)

        def disturbed() -> None:
            run()
            hidden = np.ctypeslib.as_array((ctypes.c_float * int(np.prod(shape))).from_address(address))
            hidden *= factors.ravel()

        return disturbed

    return bound


def codes_with_and_without_speculation(engines: Path, window: int, frames: int) -> tuple[Speech, Speech]:
    with simulated(), TTS(engines) as tts:
        return spoken(tts, 0, frames), spoken(tts, window, frames)


@pytest.mark.parametrize(("size", "window"), [(1e-4, 4), (SEEN, 2)])
def test_the_guard_keeps_greedy_codes_where_several_rows_round_otherwise(
    demo_device_engines: Path, monkeypatch: pytest.MonkeyPatch, size: float, window: int
) -> None:
    monkeypatch.setattr(LoadedEngine, "bound", rounding_otherwise(LoadedEngine.bound, size))
    plain, speech = codes_with_and_without_speculation(demo_device_engines, window, 12)
    assert speech.statistics.status.rows_exact is False
    assert speech.statistics.guarded > 0
    np.testing.assert_array_equal(speech.codes, plain.codes)


def test_without_the_guard_such_rounding_changes_codes(
    demo_device_engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoadedEngine, "bound", rounding_otherwise(LoadedEngine.bound, SEEN))
    monkeypatch.setattr(RowProbe, "tolerance", 0.0)
    plain, speech = codes_with_and_without_speculation(demo_device_engines, 2, 12)
    assert speech.statistics.guarded == 0
    assert not np.array_equal(speech.codes, plain.codes)
