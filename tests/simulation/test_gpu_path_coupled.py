"""Under the rule coupled, the simulated GPU gives sampled codes that do not depend on speculation, in fp32 and fp16."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt import TTS
from cpspec_trt.api.speech import Speech
from cpspec_trt.stages.row_probe import RowProbe
from tests.conftest import DEMO_CHECKPOINT
from tests.simulation.conftest import build_simulated
from tests.simulation.simulation import Simulation, simulated
from tests.simulation.tensorrt_context import Bound
from tests.simulation.tensorrt_engine import LoadedEngine

WINDOWS = range(2, 9)
ROUNDING = 2e-2  # of a hidden row's entries, where a pass has several


def _rounding_otherwise(real: Callable[[LoadedEngine, Bound], Callable[[], None]]) -> Callable[..., Callable[[], None]]:
    """Passes of several rows give half precision rows that are off by random factors, the same in every run."""

    def bound(engine: LoadedEngine, tensors: Bound) -> Callable[[], None]:
        run = real(engine, tensors)
        shape, address = tensors.get("hidden_states", ((), 0))
        if len(shape) != 3 or shape[1] == 1:
            return run
        factors = 1 + ROUNDING * np.random.default_rng(5).uniform(-1, 1, int(np.prod(shape)))

        def disturbed() -> None:
            run()
            hidden = np.ctypeslib.as_array((ctypes.c_uint16 * len(factors)).from_address(address)).view(np.float16)
            hidden[:] = hidden * factors

        return disturbed

    return bound


def _spoken(tts: TTS, window: int, frames: int, seed: int = 0) -> Speech:
    return tts.speak(
        "hello world",
        speaker="ryan",
        rule="coupled",
        speculate=window,
        seed=seed,
        max_frames=frames,
        language="english",
    )


def _different(tts: TTS, frames: int, windows: Iterable[int] = WINDOWS, seeds: int = 1) -> tuple[int, int]:
    """Over windows and seeds: answers with other codes than the autoregressive loop's, and guarded codes."""
    different = guarded = 0
    for seed in range(seeds):
        plain = _spoken(tts, 0, frames, seed)
        for window in windows:
            speech = _spoken(tts, window, frames, seed)
            assert sum(speech.statistics.proposed) > 0
            different += not np.array_equal(speech.codes, plain.codes)
            guarded += speech.statistics.guarded
    return different, guarded


def test_sampled_codes_are_those_of_the_autoregressive_loop_for_every_window(
    simulation: Simulation, demo_device_engines: Path
) -> None:
    with TTS(demo_device_engines) as tts:
        assert _different(tts, 3) == (0, 0)


@pytest.mark.long
def test_sampled_codes_are_those_of_the_autoregressive_loop_for_every_window_at_length(
    simulation: Simulation, demo_device_engines: Path
) -> None:
    with TTS(demo_device_engines) as tts:
        assert _different(tts, 40, seeds=8) == (0, 0)


@pytest.mark.parametrize("guard", [True, False], ids=["guard on", "guard off"])
def test_half_precision_that_rounds_otherwise_changes_sampled_codes_with_the_guard_off_alone(
    shared_directory: Path, monkeypatch: pytest.MonkeyPatch, guard: bool
) -> None:
    monkeypatch.setattr(LoadedEngine, "bound", _rounding_otherwise(LoadedEngine.bound))
    if not guard:
        monkeypatch.setattr(RowProbe, "tolerance", 0.0)
    with simulated():
        root = build_simulated(shared_directory / "device-engines-demo-fp16", DEMO_CHECKPOINT, precision="fp16")
        with TTS(root) as tts:
            different, guarded = _different(tts, 5, (4,))
    assert (different == 0) == guard
    assert (guarded > 0) == guard
