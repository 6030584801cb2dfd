"""Trees of drafts on the simulated GPU: the codes of the autoregressive loop, for every width that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt import TTS
from cpspec_trt.devices.device import Device
from cpspec_trt.errors import EngineError
from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.kernels.faults import NOT_FINITE, RowNumericError
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.adaptive import AdaptivePolicy, chains, trees
from cpspec_trt.speculation.policy import FixedPolicy, Widths
from cpspec_trt.speculation.rules import RULES
from cpspec_trt.speculation.tree import TreeLayout, tree_rows
from cpspec_trt.stages.device_code_predictor import DeviceCodePredictor
from cpspec_trt.stages.device_plans import guard_for
from cpspec_trt.stages.row_probe import RowProbe
from tests.conftest import TEST_LIMITS, Maker
from tests.simulation.conftest import build_simulated
from tests.simulation.simulation import Simulation
from tests.stages.device_predictor import GREEDY, SAMPLED, DeviceFrames, host_frames

SPEC = ("tiny", 54)
COUPLED = RULES["coupled"]
WIDTHS: tuple[Widths, ...] = ((2,), (2, 2), (2, 2, 2), (2,) * 4, (2,) * 5, (4,), (4, 4), (4, 2))
FILTERS = (SAMPLED, FilterParameters(1.0, 0, 0.8), FilterParameters(0.3, 50, 1.0))
TEXT = "hello world"


@pytest.fixture(scope="session")
def wide_engines(shared_directory: Path, synthetic_checkpoint: Maker) -> Path:
    """Simulated engines whose passes may have 63 rows."""
    limits = replace(TEST_LIMITS, max_verify_rows=63)
    return build_simulated(shared_directory / "wide-device-engines", synthetic_checkpoint(*SPEC), limits=limits)


@pytest.fixture
def host(synthetic_engines: Maker) -> Path:
    return synthetic_engines(*SPEC)


@pytest.fixture
def device(simulation: Simulation) -> Iterator[Device]:
    with Device() as opened:
        yield opened


def assert_equal_for_every_width(engines: Path, host: Path, device: Device, frames: int) -> None:
    """Decode ``frames`` frames per width, the last third greedily, and compare with the plain loop on the host."""
    found, accepted, sampled = DeviceFrames(engines, device), 0, frames - frames // 3
    for number, widths in enumerate(WIDTHS):
        begin = number * frames
        for share, filters in (
            (range(begin, begin + sampled), FILTERS[number % len(FILTERS)]),
            (range(begin + sampled, begin + frames), GREEDY),
        ):
            codes, (counted,) = found.decode(share, len(widths) + 1, [filters], COUPLED, policy=FixedPolicy(widths))
            plain, _ = host_frames(host, share, 0, [filters])
            np.testing.assert_array_equal(codes, plain, err_msg=f"widths {widths}")
            accepted += sum(counted.accepted)
    assert accepted > frames


def test_codes_are_equal_for_every_width(wide_engines: Path, host: Path, device: Device) -> None:
    assert_equal_for_every_width(wide_engines, host, device, 3)


@pytest.mark.long
def test_codes_are_equal_for_every_width_at_length(wide_engines: Path, host: Path, device: Device) -> None:
    assert_equal_for_every_width(wide_engines, host, device, 45)


def test_a_round_of_a_tree_is_one_graph_of_six_launches_and_one_wait_and_counts_as_on_the_host(
    wide_engines: Path, host: Path, device: Device
) -> None:
    found, policy = DeviceFrames(wide_engines, device), FixedPolicy((2, 2))
    found.decode([0], 3, [SAMPLED], COUPLED, policy=policy)  # captures
    before = device.submitted.copy()
    codes, (statistics,) = found.decode(range(1, 9), 3, [SAMPLED], COUPLED, policy=policy)
    did = device.submitted.since(before)
    expected, (counted,) = host_frames(host, range(1, 9), 3, [SAMPLED], COUPLED, policy=FixedPolicy((2, 2)))
    np.testing.assert_array_equal(codes, expected)
    assert statistics == counted
    assert sum(statistics.accepted) > 0
    assert did.synchronisations == statistics.rounds
    assert did.graph_launches == statistics.rounds + 8
    assert did.direct == 2 * 8, "the test's own copies"
    assert did.kernels <= 3 * 8 + 6 * statistics.rounds


def test_a_ragged_batch_of_trees_has_the_codes_of_each_row_alone(
    wide_engines: Path, host: Path, device: Device
) -> None:
    filters, policy = [SAMPLED, GREEDY, SAMPLED], FixedPolicy((4, 2))
    codes, statistics = DeviceFrames(wide_engines, device, batch=3).decode(range(4), 3, filters, COUPLED, policy=policy)
    expected, _ = host_frames(host, range(4), 0, filters, COUPLED)
    np.testing.assert_array_equal(codes, expected)
    assert len({each.rounds for each in statistics}) > 1, "the rows never stood at different depths"


@pytest.mark.parametrize("filters", [SAMPLED, GREEDY], ids=["coupled", "greedy"])
def test_guarded_codes_of_trees_are_left_to_plain_steps_as_on_the_host(
    wide_engines: Path, host: Path, device: Device, filters: FilterParameters
) -> None:
    guard = guard_for(filters, COUPLED, 0.5)
    found = DeviceFrames(wide_engines, device)
    codes, (statistics,) = found.decode(range(6), 3, [filters], COUPLED, guard, FixedPolicy((2, 2)))
    expected, (counted,) = host_frames(host, range(6), 3, [filters], COUPLED, 0.5, FixedPolicy((2, 2)))
    np.testing.assert_array_equal(codes, expected)
    np.testing.assert_array_equal(codes, host_frames(host, range(6), 0, [filters])[0])
    assert statistics == counted
    assert statistics.guarded > 0


def test_a_policy_chooses_among_chains_and_trees(wide_engines: Path, host: Path, device: Device) -> None:
    def policy() -> AdaptivePolicy:
        costs = PassCosts((1, 2, 8, 16), (1.0, 1.01, 1.05, 1.1), 0.001)
        return AdaptivePolicy(16, [*chains(4), *trees(4, 7)], costs)

    codes, (statistics,) = DeviceFrames(wide_engines, device).decode(range(8), 4, [SAMPLED], COUPLED, policy=policy())
    expected, (counted,) = host_frames(host, range(8), 4, [SAMPLED], COUPLED, policy=policy())
    np.testing.assert_array_equal(codes, expected)
    assert statistics == counted
    assert any(max(widths, default=1) > 1 for widths in statistics.choices)


@pytest.mark.parametrize(("head", "depth"), [(2, 3), (14, 15)])
def test_a_fault_in_a_row_of_a_tree_names_row_frame_and_depth(
    wide_engines: Path, device: Device, head: int, depth: int
) -> None:
    found = DeviceFrames(wide_engines, device)
    heads = found.predictor.heads.row(head)
    device.write(heads, np.full(heads.shape, np.nan, np.float32))
    with pytest.raises(RowNumericError) as fault:
        found.decode([6], 3, [SAMPLED], COUPLED, policy=FixedPolicy((2, 2)))
    assert (fault.value.row, fault.value.frame, fault.value.depth, fault.value.flag) == (0, 6, depth, NOT_FINITE)


@pytest.mark.parametrize("widths", [(2, 2), (4, 2), (2,) * 5])
def test_the_probe_of_a_tree_measures_its_rows(wide_engines: Path, device: Device, widths: Widths) -> None:
    found, layout = DeviceFrames(wide_engines, device), TreeLayout.of(widths)
    single, tree = found.round((), COUPLED).planned, found.round(widths, COUPLED).planned
    exact = found.predictor.probe_tree(found.start.planned, single, tree, layout)
    assert exact.difference < 1e-5
    evaluate = tree.evaluate
    tree.evaluate = lambda *arguments: evaluate(*arguments) * np.float32(1 + 1e-3)  # type: ignore[method-assign]
    probe = found.predictor.probe_tree(found.start.planned, single, tree, layout)
    assert not probe.exact
    assert exact.difference < probe.difference < probe.tolerance < 1


def speak(tts: TTS, **settings: object) -> np.ndarray:
    return tts.speak(TEXT, speaker="ryan", max_frames=2, seed=11, **settings).codes  # type: ignore[arg-type]


def test_requests_with_trees_have_the_codes_of_the_seed(simulation: Simulation, wide_engines: Path) -> None:
    with TTS(wide_engines) as tts:
        plain, greedy = speak(tts), speak(tts, greedy=True)
        tree = {"speculate": 3, "rule": "coupled", "tree_width": (4, 2)}
        np.testing.assert_array_equal(speak(tts, **tree), plain)
        np.testing.assert_array_equal(speak(tts, greedy=True, **tree), greedy)
        np.testing.assert_array_equal(speak(tts, speculate="auto", rule="coupled"), plain)


def test_no_request_captures_a_graph_or_allocates_whatever_its_temperature(
    simulation: Simulation, wide_engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard follows the temperature, and is no part of a graph."""
    probed = RowProbe(exact=False, difference=0.01)
    monkeypatch.setattr(DeviceCodePredictor, "probe_tree", lambda *arguments: probed)
    with TTS(wide_engines) as tts:
        speak(tts, speculate=3, rule="coupled", tree_width=2)
        before = simulation.counts.copy()
        found = {}
        for temperature in (0.4, 0.9, 1.7):
            settings = {"code_predictor": FilterParameters(temperature, 50, 1.0)}
            found[temperature] = speak(tts, speculate=3, rule="coupled", tree_width=2, **settings)
        speak(tts, speculate=3, rule="coupled", tree_width=2, greedy=True)
        did = simulation.counts - before
        assert (did.captured, did.allocations) == (0, 0)
        for temperature, codes in found.items():
            np.testing.assert_array_equal(codes, speak(tts, code_predictor=FilterParameters(temperature, 50, 1.0)))


def test_a_tree_that_an_engine_does_not_take_is_refused_with_what_to_build(
    simulation: Simulation, device_engines: Maker
) -> None:
    assert tree_rows((4, 2)) == 13
    with TTS(device_engines(*SPEC)) as tts, pytest.raises(EngineError, match=r"has 13 rows.*--maxVerifyRows 13"):
        speak(tts, speculate=3, rule="coupled", tree_width=(4, 2))
