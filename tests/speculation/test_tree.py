"""Trees of drafts: their layout, and codes that are those of the autoregressive loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpspec_trt.errors import UsageError
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.policy import FixedPolicy
from cpspec_trt.speculation.rules import RULES
from cpspec_trt.speculation.tree import TreeLayout, tree_rows
from tests.speculation.toy import Toy, ToyPredictor, decode

SAMPLED = FilterParameters(0.9, 3, 0.95)
GREEDY = FilterParameters(1.0, 0, 1.0, do_sample=False)
COUPLED = RULES["coupled"]
TOY = Toy.random(9, 4, 4)


def test_nodes_lie_level_by_level_and_siblings_in_the_order_of_the_race() -> None:
    layout = TreeLayout.of((2, 3))
    assert layout.depths.tolist() == [0, 1, 1, 2, 2, 2, 2, 2, 2]
    assert layout.parents.tolist() == [-1, 0, 0, 1, 1, 1, 2, 2, 2]
    assert layout.ranks.tolist() == [0, 0, 1, 0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("widths", "rows"), [((), 1), ((1, 1, 1), 4), ((2,), 3), ((2,) * 5, 63), ((4, 4), 21), ((4, 2), 13)]
)
def test_a_tree_takes_one_row_per_node(widths: tuple[int, ...], rows: int) -> None:
    assert tree_rows(widths) == rows == len(TreeLayout.of(widths).depths)


@pytest.mark.parametrize("widths", [(2,), (2, 2), (4, 2), (4, 4), (1, 3), (2, 2, 2, 2, 2)], ids=str)
def test_codes_of_trees_are_those_of_the_autoregressive_loop(widths: tuple[int, ...]) -> None:
    seeds, frames = np.arange(60, dtype=np.uint64), np.arange(60) % 9
    filters = [(SAMPLED, FilterParameters(1.2, 0, 1.0), GREEDY)[row % 3] for row in range(60)]
    plain, _ = decode(TOY, 0, filters, seeds, frames)
    codes, trees = decode(TOY, len(widths) + 1, filters, seeds, frames, COUPLED, widths)
    np.testing.assert_array_equal(codes, plain)
    _, chains = decode(TOY, len(widths) + 1, filters, seeds, frames, COUPLED)
    rounds = [sum(each.rounds for each in statistics) for statistics in (trees, chains)]
    assert rounds[0] < rounds[1]
    assert [each.rule for each in trees[:3]] == ["coupled", "coupled", "greedy"]


@given(
    seed=st.integers(0, 2**31),
    groups=st.integers(2, 7),
    widths=st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple),
)
@settings(max_examples=40, deadline=None)
def test_any_tree_over_any_frame_gives_the_autoregressive_codes(
    seed: int, groups: int, widths: tuple[int, ...]
) -> None:
    toy = Toy.random(groups, 3, seed)
    seeds, frames = np.array([seed, 7, 8], np.uint64), np.array([0, 3, 1])
    plain, _ = decode(toy, 0, [SAMPLED] * 3, seeds, frames)
    codes, _ = decode(toy, len(widths) + 1, [SAMPLED] * 3, seeds, frames, COUPLED, widths)
    np.testing.assert_array_equal(codes, plain)


def test_a_tree_as_wide_as_the_codebook_accepts_everything() -> None:
    toy = Toy.random(8, 3, 2)
    seeds = np.arange(20, dtype=np.uint64)
    _, statistics = decode(toy, 3, [FilterParameters(1.0, 0, 1.0)] * 20, seeds, np.zeros(20), COUPLED, (3, 3))
    assert all(each.accepted == each.reached == each.proposed == [2, 2] for each in statistics)
    assert all(each.rounds == 2 for each in statistics)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_trees_are_refused_under_other_rules(rule: str) -> None:
    with pytest.raises(UsageError, match=f"under the rule coupled alone, not under {rule}"):
        FrameDecoder(OracleKernels(), ToyPredictor(TOY, 1), TOY.heads, 3, 1, RULES[rule], policy=FixedPolicy((2, 2)))
