"""The predicted speed-up against what can be worked out by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from cpspec_trt.bench.prediction import predicted_speedup
from cpspec_trt.files.pass_costs import PassCosts

GROUPS = 16
FREE_HEADS = PassCosts(rows=(1, 8), seconds=(1.0, 1.0), head_seconds=0.0)


def expected_rounds(alpha: float, drafts: int) -> Counter[tuple[int, ...]]:
    """Mean number of rounds of a frame by what they draft, if every draft that is reached stands with chance alpha.

    The chance to stand at c_m is carried from m = 1 to the end; no round is simulated.
    """
    standing = [0.0] * GROUPS
    standing[1] = 1.0
    rounds: Counter[tuple[int, ...]] = Counter()
    for m in range(1, GROUPS - 1):
        n = min(drafts, GROUPS - 2 - m)
        rounds[(1,) * n] += standing[m]
        for accepted in range(n + 1):
            chance = alpha**accepted * (1 - alpha if accepted < n else 1)
            standing[m + accepted + 1] += standing[m] * chance
    assert standing[GROUPS - 1] == pytest.approx(1)
    return rounds


def test_plain_steps_alone_gain_nothing() -> None:
    costs = PassCosts((1, 2, 8), (0.04, 0.05, 0.09), 0.001)
    assert predicted_speedup(costs, GROUPS, 3, {(): 3 * 14}) == pytest.approx(1)


def test_a_frame_of_four_groups_by_hand() -> None:
    """Start: pass of 2 rows, 1 head. Then one round of one draft (2 rows, 3 heads) instead of two steps of one head."""
    costs = PassCosts((1, 2), (10.0, 12.0), 1.0)
    autoregressive = (12 + 1) + 2 * (10 + 1)
    assert predicted_speedup(costs, 4, 1, {(1,): 1}) == pytest.approx(autoregressive / ((12 + 1) + (12 + 3)))


def test_a_tree_pays_for_its_nodes_and_drafts_one_law_per_depth() -> None:
    """4 children of which each has 2: 13 rows, 13 scored heads, 2 drafted ones; a size between two measured ones."""
    costs = PassCosts((1, 2, 11, 15), (10.0, 10.0, 20.0, 24.0), 1.0)
    autoregressive = 11 + 14 * 11
    assert predicted_speedup(costs, 16, 1, {(4, 2): 2}) == pytest.approx(autoregressive / (11 + 2 * (22 + 15)))


@pytest.mark.parametrize(
    ("drafts", "alpha", "passes"),
    [
        *[(2, 0.3, 11.3), (2, 0.5, 9.3), (2, 0.7, 7.7)],
        *[(3, 0.3, 11.2), (3, 0.5, 8.9), (3, 0.7, 7.0)],
        *[(4, 0.3, 11.1), (4, 0.5, 8.7), (4, 0.7, 6.5)],
    ],
)
def test_where_passes_cost_alike_and_heads_nothing_it_is_the_ratio_of_passes(
    drafts: int, alpha: float, passes: float
) -> None:
    """Passes of a frame as known for a constant acceptance, rounded to a tenth."""
    rounds = expected_rounds(alpha, drafts)
    assert 1 + rounds.total() == pytest.approx(passes, abs=0.051)
    expected = 15 / (1 + rounds.total())
    assert predicted_speedup(FREE_HEADS, GROUPS, 1, rounds) == pytest.approx(expected)


def test_dear_heads_turn_a_gain_into_a_loss() -> None:
    rounds = expected_rounds(0.3, 3)
    dear = PassCosts(rows=(1, 8), seconds=(1.0, 1.0), head_seconds=0.5)
    assert predicted_speedup(FREE_HEADS, GROUPS, 1, rounds) > 1 > predicted_speedup(dear, GROUPS, 1, rounds)
