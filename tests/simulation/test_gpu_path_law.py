"""Frames that the simulated GPU draws from a toy have the law that enumeration gives, under every rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.devices.device import Device
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.policy import Widths
from cpspec_trt.speculation.rules import RULES, Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics
from tests.simulation.simulation import Simulation
from tests.simulation.toy_engine import open_decoder, write_engine
from tests.speculation.laws import P_BOUND, p_value
from tests.speculation.toy import Toy, statistics_of

SHORT = Toy.random(groups=6, codebook=2, seed=3)
LONG = Toy.random(groups=10, codebook=2, seed=2, spread=0.7)
FILTERS = FilterParameters(0.8, 0, 1.0)
OTHER_FILTERS = FilterParameters(1.1, 0, 1.0)
BATCH = 128


def sample(
    simulation: Simulation, directory: Path, toy: Toy, window: int, rule: Rule, frames: int, widths: Widths = ()
) -> tuple[np.ndarray, SpeculationStatistics]:
    """So many frames for each of ``BATCH`` seeds, and the counters of all."""
    write_engine(simulation.tensorrt, directory, toy, BATCH)
    statistics = statistics_of(window)
    codes = np.empty((frames, BATCH, toy.groups), np.int64)
    with Device() as device:
        decoder = open_decoder(device, directory, toy, window, rule, BATCH, widths)
        for row in range(BATCH):
            decoder.parameters.set(row, FILTERS, 1000 + row)
        for frame in range(frames):
            decoder.start(frame, lambda: None)
            device.synchronise()
            decoder.finish([FILTERS] * BATCH, codes[frame], [statistics] * BATCH)
        del decoder
    return codes.reshape(-1, toy.groups), statistics


LENGTHS = [
    pytest.param(SHORT, 2, 25, id="window_2"),
    pytest.param(SHORT, 4, 25, id="window_4"),
    pytest.param(SHORT, 3, 200, id="window_3_at_length", marks=pytest.mark.long),
    pytest.param(LONG, 8, 200, id="window_8_at_length", marks=pytest.mark.long),
]


def test_autoregressive_frames_have_the_enumerated_law(simulation: Simulation, tmp_path: Path) -> None:
    codes, _ = sample(simulation, tmp_path, SHORT, 0, RULES["rejection"], 25)
    assert p_value(SHORT, FILTERS, codes) > P_BOUND
    assert p_value(SHORT, OTHER_FILTERS, codes) < P_BOUND  # so many frames tell laws apart that are this close


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("toy", "window", "frames"), LENGTHS)
def test_speculative_frames_have_the_enumerated_law(
    simulation: Simulation, tmp_path: Path, toy: Toy, window: int, frames: int, rule: str
) -> None:
    codes, statistics = sample(simulation, tmp_path, toy, window, RULES[rule], frames)
    assert p_value(toy, FILTERS, codes) > P_BOUND
    assert p_value(toy, OTHER_FILTERS, codes) < P_BOUND
    assert len(statistics.proposed) == window - 1
    for proposed, reached, accepted in zip(statistics.proposed, statistics.reached, statistics.accepted, strict=True):
        assert proposed >= reached >= accepted > 0


@pytest.mark.parametrize(
    ("toy", "widths", "frames"),
    [
        pytest.param(SHORT, (2, 2), 25, id="widths_2_2"),
        pytest.param(SHORT, (2, 1), 200, id="widths_2_1_at_length", marks=pytest.mark.long),
        pytest.param(LONG, (2, 2), 200, id="widths_2_2_at_length", marks=pytest.mark.long),
    ],
)
def test_frames_with_trees_have_the_enumerated_law(
    simulation: Simulation, tmp_path: Path, toy: Toy, widths: Widths, frames: int
) -> None:
    codes, statistics = sample(simulation, tmp_path, toy, len(widths) + 1, RULES["coupled"], frames, widths)
    assert p_value(toy, FILTERS, codes) > P_BOUND
    assert p_value(toy, OTHER_FILTERS, codes) < P_BOUND
    assert all(accepted > 0 for accepted in statistics.accepted)
