"""The adaptive policy: it finds the cheapest plan, gives up where nothing stands, and changes no coupled code."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.adaptive import GIVE_UP_AFTER, AdaptivePolicy, chains, trees
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.policy import Widths
from cpspec_trt.speculation.round import Outcome
from cpspec_trt.speculation.rules import RULES
from cpspec_trt.speculation.tree import tree_rows
from tests.speculation.toy import Toy, ToyPredictor, statistics_of

FLAT = PassCosts((1, 8, 64), (1.0, 1.05, 1.4), 0.001)  # a pass takes nearly the same however many rows it has
STEEP = PassCosts((1, 8, 64), (1.0, 8.0, 64.0), 0.001)
GROUPS = 16
SAMPLED = FilterParameters(0.9, 0, 1.0)


def _rounds(policy: AdaptivePolicy, chances: tuple[float, ...], rounds: int, seed: int = 0) -> list[tuple[int, Widths]]:
    """Drafts stand with a chance by offset, whatever the width; returns where rounds stood and what was chosen."""
    random = np.random.default_rng(seed)
    chosen, m = [], 1
    for _ in range(rounds):
        last = np.array([m])
        widths = policy.choose(last)
        assert len(widths) <= GROUPS - 2 - m
        stands = random.random(len(widths)) < np.array(chances[: len(widths)])
        accepted = int(np.cumprod(stands).sum())
        one = np.array([accepted])
        policy.observe(last, widths, Outcome(np.array([0]), np.array([len(widths)]), one, one + 1))
        chosen.append((m, widths))
        m += accepted + 1
        if m >= GROUPS - 1:
            m = 1
    return chosen


def _lengths(chosen: list[tuple[int, Widths]]) -> list[int]:
    return [len(widths) for m, widths in chosen if m <= 6]


def test_drafts_that_stand_make_long_windows_where_rows_are_cheap() -> None:
    chosen = _rounds(AdaptivePolicy(GROUPS, chains(8), FLAT), (0.95,) * 7, 400)
    assert np.mean(_lengths(chosen[200:])) > 6


def test_drafts_that_fall_from_the_second_on_make_short_windows() -> None:
    costs = PassCosts((1, 8), (1.0, 1.7), 0.01)
    chosen = _rounds(AdaptivePolicy(GROUPS, chains(8), costs), (0.9, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02), 600)
    assert np.mean(_lengths(chosen[300:])) < 2


def test_rows_that_cost_as_much_as_passes_are_not_drafted() -> None:
    chosen = _rounds(AdaptivePolicy(GROUPS, chains(8), STEEP), (0.5,) * 7, 400)
    assert np.mean(_lengths(chosen[100:])) < 0.1


def test_a_policy_gives_up_after_rounds_without_an_acceptance_and_probes_less_than_one_pass_in_fifty() -> None:
    policy = AdaptivePolicy(GROUPS, chains(4), FLAT)
    chosen = _rounds(policy, (0.0,) * 3, 3000)
    drafted = [bool(widths) for m, widths in chosen if m < GROUPS - 2]
    behind = drafted[2 * GIVE_UP_AFTER :]
    assert 0 < sum(behind) <= 0.02 * len(behind)
    assert policy.probes >= sum(behind)


@pytest.mark.parametrize("stands", [0, 39])
def test_a_round_of_a_batch_in_which_one_draft_stood_is_not_one_without(stands: int) -> None:
    policy, batch = AdaptivePolicy(GROUPS, chains(2), FLAT), 40
    last, accepted = np.ones(batch, np.int64), np.zeros(batch, np.int64)
    accepted[stands] = 1
    for accepts in (accepted, accepted * 0):
        for _ in range(GIVE_UP_AFTER - 1):
            policy.observe(last, (1,), Outcome(np.arange(batch), np.ones(batch, np.int64), accepts, accepts + 1))
            policy._plan = [(1,)] * GROUPS  # whatever the costs say
            assert policy.choose(last) == (1,)
    policy.observe(last, (1,), Outcome(np.arange(batch), np.ones(batch, np.int64), accepts, accepts + 1))
    assert policy.choose(last) == ()


def test_a_probe_that_stands_brings_drafting_back() -> None:
    policy = AdaptivePolicy(GROUPS, chains(4), FLAT)
    _rounds(policy, (0.0,) * 3, 300)
    back = _rounds(policy, (1.0,) * 3, 800)
    assert np.mean([bool(widths) for m, widths in back[-200:] if m < GROUPS - 2]) > 0.9


def test_the_same_rounds_give_the_same_choices_and_a_reset_forgets() -> None:
    policy = AdaptivePolicy(GROUPS, chains(8), FLAT)
    first = _rounds(policy, (0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1), 300, seed=4)
    policy.reset()
    assert _rounds(policy, (0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1), 300, seed=4) == first


def test_trees_that_are_tried_fit_the_pass_and_the_window() -> None:
    for rows in (8, 21, 64):
        found = trees(8, rows)
        assert found
        assert all(tree_rows(widths) <= rows and 1 <= len(widths) < 8 for widths in found)
    assert (4, 2) in trees(8, 64)
    assert (2,) * 5 in trees(8, 64)


@pytest.mark.parametrize("costs", [FLAT, STEEP], ids=["cheap rows", "dear rows"])
def test_codes_under_coupled_are_those_of_the_autoregressive_loop_whatever_is_chosen(costs: PassCosts) -> None:
    toy = Toy.random(9, 3, 4)
    batch, frames = 8, 25
    every = {}
    for adaptive in (False, True):
        policy = AdaptivePolicy(toy.groups, [*chains(8), *trees(8, 21)], costs) if adaptive else None
        decoder = FrameDecoder(
            OracleKernels(),
            ToyPredictor(toy, batch),
            toy.heads,
            8 if adaptive else 0,
            batch,
            RULES["coupled"],
            0.0,
            policy,
        )
        codes = np.empty((frames, batch, toy.groups), np.int64)
        statistics = [statistics_of(8) for _ in range(batch)]
        for frame in range(frames):
            hidden, first = np.zeros((batch, 4), np.float32), np.zeros(batch, np.int64)
            seeds, index = np.arange(batch, dtype=np.uint64), np.full(batch, frame)
            decoder.decode(hidden, first, seeds, index, [SAMPLED] * batch, codes[frame], statistics)
        every[adaptive] = codes
    np.testing.assert_array_equal(every[True], every[False])
