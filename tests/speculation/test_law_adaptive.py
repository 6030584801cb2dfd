"""Windows chosen by what was accepted keep the joint law of every rule, and choose alike for the same input."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.adaptive import AdaptivePolicy, chains
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.rules import RULES, Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics
from tests.speculation.laws import P_BOUND, WIDE, WIDE_FILTERS, p_value
from tests.speculation.toy import TableKernels, ToyPredictor, statistics_of

COSTS = PassCosts((1, 2, 3, 4), (1.0, 1.25, 1.4, 1.5), 0.01)  # near where longer chains stop to pay
BATCH, FRAMES, MORE_FRAMES = 12, 6_000, 200_400
OTHER_FILTERS = FilterParameters(1.1, 3, 0.95)


def _sample(rule: Rule, count: int) -> tuple[np.ndarray, SpeculationStatistics]:
    """Frames in batches so small that what one row accepts decides what the others draft."""
    policy = AdaptivePolicy(WIDE.groups, chains(4), COSTS)
    heads = np.zeros((WIDE.groups - 1, WIDE.codebook, 1), np.float32)
    predictor = ToyPredictor(WIDE, BATCH, one_hot=False)
    decoder = FrameDecoder(TableKernels(WIDE), predictor, heads, 4, BATCH, rule, policy=policy)
    codes, statistics = np.empty((count, WIDE.groups), np.int64), statistics_of(4)
    hidden, first = np.zeros((BATCH, 1), np.float32), np.zeros(BATCH, np.int64)
    for begin in range(0, count, BATCH):
        index = np.arange(begin, begin + BATCH)
        if begin % (50 * BATCH) == 0:
            decoder.reset()  # as before a request
        seeds, frames = np.uint64(42) + (index // 50).astype(np.uint64), index % 50
        each = [statistics_of(4) for _ in range(BATCH)]
        decoder.decode(hidden, first, seeds, frames, [WIDE_FILTERS] * BATCH, codes[begin : begin + BATCH], each)
        statistics.choices.update(each[0].choices)
    return codes, statistics


def _check(rule: str, count: int) -> None:
    codes, statistics = _sample(RULES[rule], count)
    assert p_value(WIDE, WIDE_FILTERS, codes) > P_BOUND
    assert p_value(WIDE, OTHER_FILTERS, codes) < P_BOUND  # so many frames tell laws apart that are this close
    drafted = {widths: number for widths, number in statistics.choices.items() if number > 20}
    assert len(drafted) > 2, "one window was chosen throughout, so nothing was adapted"


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_adaptive_windows_keep_the_joint_law(rule: str) -> None:
    _check(rule, FRAMES)


@pytest.mark.long
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_adaptive_windows_keep_the_joint_law_at_length(rule: str) -> None:
    _check(rule, MORE_FRAMES)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_the_same_input_gives_the_same_codes_again_and_other_costs_give_others(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = _sample(RULES[rule], 40 * BATCH)
    np.testing.assert_array_equal(_sample(RULES[rule], 40 * BATCH)[0], first)
    monkeypatch.setattr("tests.speculation.test_law_adaptive.COSTS", PassCosts((1, 4), (1.0, 1.01), 0.0))
    assert not np.array_equal(_sample(RULES[rule], 40 * BATCH)[0], first)
