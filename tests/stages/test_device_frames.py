"""Frames over the simulated GPU: the codes of the host, one wait per round, ragged batches, faults that are named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.devices.device import Device
from cpspec_trt.errors import EngineError
from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.kernels.faults import NOT_FINITE, RowNumericError
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.adaptive import AdaptivePolicy, chains
from cpspec_trt.speculation.rules import RULES
from cpspec_trt.stages.device_frame_start import FrameStart
from cpspec_trt.stages.device_plans import guard_for
from tests.conftest import Maker
from tests.simulation.simulation import Simulation
from tests.stages.device_predictor import GREEDY, SAMPLED, DeviceFrames, host_frames

SPEC = ("tiny", 54)


@pytest.fixture
def engines(device_engines: Maker) -> Path:
    return device_engines(*SPEC)


@pytest.fixture
def host(synthetic_engines: Maker) -> Path:
    return synthetic_engines(*SPEC)


@pytest.fixture
def device(simulation: Simulation) -> Iterator[Device]:
    with Device() as opened:
        yield opened


@pytest.mark.parametrize(
    ("window", "rule"), [(0, "rejection"), (2, "rejection"), (3, "block"), (4, "coupled"), (8, "rejection")]
)
def test_frames_and_counters_are_those_of_the_host(
    engines: Path, host: Path, device: Device, window: int, rule: str
) -> None:
    found = DeviceFrames(engines, device)
    for filters in (GREEDY, SAMPLED):
        codes, statistics = found.decode(range(5), window, [filters], RULES[rule])
        expected, counted = host_frames(host, range(5), window, [filters], RULES[rule])
        np.testing.assert_array_equal(codes, expected)
        assert statistics == counted


def test_guarded_greedy_codes_are_left_to_plain_steps_as_on_the_host(engines: Path, host: Path, device: Device) -> None:
    guard = guard_for(GREEDY, RULES["rejection"], 0.5)
    codes, (statistics,) = DeviceFrames(engines, device).decode(range(5), 4, [GREEDY], guard=guard)
    expected, (counted,) = host_frames(host, range(5), 4, [GREEDY], tolerance=0.5)
    np.testing.assert_array_equal(codes, expected)
    np.testing.assert_array_equal(codes, host_frames(host, range(5), 0, [GREEDY])[0])
    assert statistics == counted
    assert statistics.guarded > 0


@pytest.mark.parametrize(("filters", "rule"), [(GREEDY, "rejection"), (SAMPLED, "coupled")])
def test_the_guard_makes_up_for_passes_that_round_otherwise(
    engines: Path, host: Path, device: Device, filters: FilterParameters, rule: str
) -> None:
    """Rounds with drafts see heads that are a little off; plain steps see the true ones."""
    found, frames = DeviceFrames(engines, device), range(12)
    true = found.predictor.heads
    weights = device.read(true)
    noise = np.random.default_rng(1).standard_normal(weights.shape).astype(np.float32)
    off = device.uploaded(weights + np.abs(weights).mean() * np.float32(0.03) * noise)
    plain = host_frames(host, frames, 0, [filters])[0]
    for tolerance in (0.0, 1.0):
        guard = guard_for(filters, RULES[rule], tolerance)
        found.predictor.heads = off
        for drafts in (1, 2):
            found.round((1,) * drafts, RULES[rule], guard.of_logits)
        found.predictor.heads = true
        found.round((), RULES[rule], guard.of_logits)
        codes, (statistics,) = found.decode(frames, 3, [filters], RULES[rule], guard)
        assert np.array_equal(codes, plain) == (tolerance > 0)
        assert (statistics.guarded > 0) == (tolerance > 0)
    assert sum(statistics.accepted) > 0


def test_guarded_coupled_codes_are_those_of_the_autoregressive_loop(engines: Path, host: Path, device: Device) -> None:
    guard = guard_for(SAMPLED, RULES["coupled"], 0.5)
    codes, (statistics,) = DeviceFrames(engines, device).decode(range(5), 4, [SAMPLED], RULES["coupled"], guard)
    np.testing.assert_array_equal(codes, host_frames(host, range(5), 0, [SAMPLED])[0])
    assert statistics.guarded > 0
    assert sum(statistics.accepted) > 0


def test_a_policy_chooses_the_drafts_of_each_round_and_hears_what_came_of_them(
    engines: Path, host: Path, device: Device
) -> None:
    def policy() -> AdaptivePolicy:
        return AdaptivePolicy(16, chains(4), PassCosts((1, 2, 3, 4), (1.0, 1.05, 1.1, 1.2), 0.01))

    codes, (statistics,) = DeviceFrames(engines, device).decode(range(8), 4, [SAMPLED], policy=policy())
    expected, (counted,) = host_frames(host, range(8), 4, [SAMPLED], policy=policy())
    np.testing.assert_array_equal(codes, expected)
    assert statistics == counted
    assert len(statistics.choices) > 1


def test_a_ragged_batch_of_greedy_and_sampled_rows_has_the_codes_of_each_alone(
    engines: Path, host: Path, device: Device
) -> None:
    filters = [SAMPLED, GREEDY, SAMPLED]
    codes, statistics = DeviceFrames(engines, device, batch=3).decode(range(4), 4, filters)
    expected, counted = host_frames(host, range(4), 4, filters)
    np.testing.assert_array_equal(codes, expected)
    assert statistics == counted
    assert len({each.rounds for each in statistics}) > 1, "the rows never stood at different depths"


def test_a_frame_waits_once_per_round_and_submits_one_graph_per_round_and_one_for_its_start(
    engines: Path, device: Device
) -> None:
    found = DeviceFrames(engines, device)
    found.decode([0], 3, [SAMPLED])  # captures
    before = device.submitted.copy()
    _, (statistics,) = found.decode(range(1, 7), 3, [SAMPLED])
    did = device.submitted.since(before)
    assert sum(statistics.accepted) > 0, "no draft was ever accepted"
    assert did.synchronisations == statistics.rounds < 6 * 14
    assert did.graph_launches == statistics.rounds + 6
    assert did.passes == statistics.passes
    assert did.direct == 2 * 6, "the test's own copies"
    assert did.kernels <= 3 * 6 + 4 * statistics.rounds


def test_rows_beyond_the_logical_length_are_never_read(engines: Path, device: Device) -> None:
    found = DeviceFrames(engines, device)
    clean, _ = found.decode(range(3), 3, [SAMPLED])
    for array in found.predictor.cache.tensors().values():
        device.write(array, np.full(array.shape, 1e6, np.float32))
    poisoned, _ = found.decode(range(3), 3, [SAMPLED])
    np.testing.assert_array_equal(poisoned, clean)


@pytest.mark.parametrize(("head", "depth"), [(0, 1), (1, 2), (14, 15)])
@pytest.mark.parametrize("window", [0, 3])
def test_a_fault_in_a_row_names_row_frame_and_depth(
    engines: Path, device: Device, head: int, depth: int, window: int
) -> None:
    found = DeviceFrames(engines, device)
    heads = found.predictor.heads.row(head)
    device.write(heads, np.full(heads.shape, np.nan, np.float32))
    with pytest.raises(RowNumericError) as fault:
        found.decode([6], window, [SAMPLED])
    assert (fault.value.row, fault.value.frame, fault.value.depth, fault.value.flag) == (0, 6, depth, NOT_FINITE)


def test_after_a_fault_the_next_frame_is_sound(engines: Path, host: Path, device: Device) -> None:
    found = DeviceFrames(engines, device)
    head = found.predictor.heads.row(7)
    sound = device.read(head)
    device.write(head, np.full(head.shape, np.inf, np.float32))
    with pytest.raises(RowNumericError):
        found.decode([0], 3, [SAMPLED])
    device.write(head, sound)
    codes, _ = found.decode([1], 3, [SAMPLED])
    np.testing.assert_array_equal(codes, host_frames(host, [1], 3, [SAMPLED])[0])


def test_the_probe_finds_the_simulations_rows_exact_and_tells_rows_that_are_not(engines: Path, device: Device) -> None:
    found = DeviceFrames(engines, device)
    single, several = found.round(()).planned, found.round((1, 1)).planned
    probe = found.predictor.probe(found.start.planned, single, [found.round((1,)).planned, several])
    assert (probe.exact, probe.difference, probe.tolerance) == (True, 0.0, 0.0)
    evaluate = several.evaluate
    several.evaluate = lambda *arguments: evaluate(*arguments) * np.float32(1 + 1e-3)  # type: ignore[method-assign]
    probe = found.predictor.probe(found.start.planned, single, [found.round((1,)).planned, several])
    assert not probe.exact
    assert 0 < probe.difference < probe.tolerance < 1


def test_a_talker_of_another_precision_is_refused(engines: Path, device: Device) -> None:
    found = DeviceFrames(engines, device)
    hidden = device.array(found.hidden.shape, np.dtype(np.float16))
    with pytest.raises(EngineError, match=r"hidden rows are float16, the CodePredictor takes float32.*--precision"):
        FrameStart(found.predictor, hidden, found.first)
