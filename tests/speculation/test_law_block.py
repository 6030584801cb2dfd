"""Block verification keeps the joint law and accepts at least as much as rejection."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpspec_trt.kernels import draws, philox, rules_oracle
from cpspec_trt.kernels.philox import Purpose
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation import slots
from cpspec_trt.speculation.rules import RULES
from tests.kernels.test_rules_oracle import WORKED
from tests.speculation.laws import (
    FEWER_FRAMES,
    FRAMES,
    P_BOUND,
    WINDOW_NAMES,
    WINDOWS,
    p_value,
    sample,
)
from tests.speculation.toy import TableKernels, Toy

BLOCK = RULES["block"]


def _check(window: int, toy: Toy, filters: FilterParameters, count: int) -> None:
    codes, statistics = sample(toy, window, filters, rule=BLOCK, count=count)
    assert p_value(toy, filters, codes) > P_BOUND
    assert len(statistics.proposed) == window - 1
    for proposed, reached, accepted in zip(statistics.proposed, statistics.reached, statistics.accepted, strict=True):
        assert proposed >= reached > accepted > 0


@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_block_keeps_the_joint_law(window: int, toy: Toy, filters: FilterParameters) -> None:
    _check(window, toy, filters, FEWER_FRAMES)


@pytest.mark.long
@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_block_keeps_the_joint_law_at_length(window: int, toy: Toy, filters: FilterParameters) -> None:
    _check(window, toy, filters, FRAMES)


class StopsEarly(TableKernels):
    """The first draft that its own bound would refuse ends the round."""

    def accept_block(self, target, draft, drafts, counts, last, seeds, frames, accepted, codes):  # type: ignore[no-untyped-def]
        verified = np.cumsum(counts + 1) - (counts + 1)
        drafted = verified - np.arange(len(counts))
        joint, kept = np.ones((2, len(counts)), np.float32)
        accepted[:] = 0
        going = np.ones(len(counts), bool)
        for slot in range(int(counts.max(initial=0))):
            active = np.flatnonzero(going & (counts > slot))
            row, guess = verified[active] + slot, drafted[active] + slot
            joint[active] *= target[row, drafts[guess]] / draft[guess, drafts[guess]]
            joint[active] = np.minimum(joint[active], 1)
            bound = joint[active].copy()
            more = np.flatnonzero(counts[active] > slot + 1)
            reach = np.maximum(bound[more, None] * target[row[more] + 1] - draft[guess[more] + 1], 0).sum(axis=1)
            bound[more] = np.where(reach > 0, reach / (reach + 1 - bound[more] + 1e-30), bound[more] == 1)
            streams = philox.stream(Purpose.ACCEPT, last[active] + 1 + slot, last[active])
            stands = philox.uniform_of(philox.scalar_words(seeds[active], streams, frames[active])) <= bound
            accepted[active[stands]] = slot + 1
            kept[active[stands]] = joint[active[stands]]
            going[active[~stands]] = False
        draws.draw_following(target, draft, kept, counts, last, seeds, frames, accepted, codes)


def _keyed_by_depth(purpose: Purpose, depth: np.ndarray, last: np.ndarray | int = 0) -> np.ndarray:
    return philox.stream(purpose, depth, np.zeros_like(np.asarray(last)))


# Windows of two have one draft, over which block is rejection and rejection survives both faults.
LONGER = WINDOWS[1:]


@pytest.mark.parametrize(("window", "toy", "filters"), LONGER, ids=WINDOW_NAMES[1:])
def test_the_law_breaks_when_block_stops_early(window: int, toy: Toy, filters: FilterParameters) -> None:
    codes, _ = sample(toy, window, filters, kernels=StopsEarly(toy), rule=BLOCK, count=FEWER_FRAMES)
    assert p_value(toy, filters, codes) < P_BOUND


@pytest.mark.parametrize(("window", "toy", "filters"), LONGER, ids=WINDOW_NAMES[1:])
def test_the_law_breaks_when_the_noise_of_block_is_keyed_by_depth_alone(
    window: int, toy: Toy, filters: FilterParameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (draws, rules_oracle, slots):
        monkeypatch.setattr(module, "stream", _keyed_by_depth)
    codes, _ = sample(toy, window, filters, rule=BLOCK, count=FEWER_FRAMES)
    assert p_value(toy, filters, codes) < P_BOUND


def _expected_accepted(drafts: np.ndarray, targets: list[np.ndarray]) -> tuple[float, float]:
    """Expected accepted drafts of a round under rejection and under block, by enumeration of what is drafted.

    Args:
        drafts: [n, V], q of each slot.
        targets: for slot i, p after each drafted prefix: [V] * (i + 1), the last axis the law.
    """
    rejection = block = 0.0
    length, codebook = drafts.shape
    for path in itertools.product(range(codebook), repeat=length):
        chance = float(np.prod([drafts[slot, code] for slot, code in enumerate(path)]))
        ratios = [targets[slot][path[: slot + 1]] / drafts[slot, path[slot]] for slot in range(length)]
        rejection += chance * float(np.cumprod(np.minimum(ratios, 1)).sum())
        joint, bounds = 1.0, []
        for slot, ratio in enumerate(ratios, start=1):
            joint = min(joint * ratio, 1.0)
            reach = joint
            if slot < length:
                mass = np.maximum(joint * targets[slot][path[:slot]] - drafts[slot], 0).sum()
                reach = mass / (mass + 1 - joint) if mass + 1 - joint > 0 else 1.0
            bounds.append(reach)
        no_later = 1.0
        for slot in range(length, 0, -1):
            block += chance * slot * bounds[slot - 1] * no_later
            no_later *= 1 - bounds[slot - 1]
    return rejection, block


@pytest.mark.parametrize(("draft", "target", "rejection", "block"), WORKED.values(), ids=WORKED)
def test_enumeration_gives_the_worked_examples(
    draft: list[float], target: list[float], rejection: float, block: float
) -> None:
    targets = [np.array(target), np.array([target, target])]
    assert _expected_accepted(np.array([draft, draft]), targets) == pytest.approx((rejection, block), abs=1e-12)


@given(seed=st.integers(0, 2**31), length=st.integers(1, 4), codebook=st.integers(2, 3), flatness=st.floats(0.2, 3))
@settings(max_examples=80, deadline=None)
def test_block_never_expects_fewer_accepted_drafts_than_rejection(
    seed: int, length: int, codebook: int, flatness: float
) -> None:
    random = np.random.default_rng(seed)
    drafts = random.dirichlet(np.full(codebook, flatness), length)
    targets = [random.dirichlet(np.full(codebook, flatness), (codebook,) * slot) for slot in range(length)]
    rejection, block = _expected_accepted(drafts, targets)
    assert block >= rejection - 1e-12
    if length == 1:
        assert block == pytest.approx(rejection, abs=1e-12)


@pytest.mark.parametrize(("window", "toy", "filters"), LONGER, ids=WINDOW_NAMES[1:])
def test_rounds_of_block_commit_more_codes_than_rounds_of_rejection(
    window: int, toy: Toy, filters: FilterParameters
) -> None:
    rates = [
        sample(toy, window, filters, rule=RULES[name], count=FEWER_FRAMES)[1].codes_per_round
        for name in ("rejection", "block")
    ]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[1] > rates[0]
