"""Trees keep the joint law, and code by code the autoregressive loop of the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.rules import RULES
from tests.speculation.laws import (
    FEWER_FRAMES,
    FRAMES,
    LONG,
    LONG_FILTERS,
    P_BOUND,
    WIDE,
    WIDE_FILTERS,
    p_value,
    sample,
)
from tests.speculation.toy import TableKernels, Toy

COUPLED = RULES["coupled"]
# WIDE keeps three of four codes, so that a width of four meets depths with fewer candidates.
TREES = [
    ((2,), WIDE, WIDE_FILTERS),
    ((2, 2, 2), WIDE, WIDE_FILTERS),
    ((4, 2), WIDE, WIDE_FILTERS),
    ((4, 4), WIDE, WIDE_FILTERS),
    ((2, 1, 2, 1), LONG, LONG_FILTERS),
]
NAMES = [str(widths) for widths, _, _ in TREES]


def _check(widths: tuple[int, ...], toy: Toy, filters: FilterParameters, count: int) -> None:
    plain, _ = sample(toy, 0, filters, count=count)
    codes, statistics = sample(toy, len(widths) + 1, filters, rule=COUPLED, count=count, widths=widths)
    np.testing.assert_array_equal(codes, plain)
    assert p_value(toy, filters, codes) > P_BOUND
    _, chain = sample(toy, len(widths) + 1, filters, rule=COUPLED, count=count)
    assert statistics.rounds < chain.rounds
    assert len(statistics.proposed) == len(widths)


@pytest.mark.parametrize(("widths", "toy", "filters"), TREES, ids=NAMES)
def test_trees_keep_the_joint_law_and_need_fewer_rounds_than_chains(
    widths: tuple[int, ...], toy: Toy, filters: FilterParameters
) -> None:
    _check(widths, toy, filters, FEWER_FRAMES)


@pytest.mark.long
@pytest.mark.parametrize(("widths", "toy", "filters"), TREES, ids=NAMES)
def test_trees_keep_the_joint_law_at_length(widths: tuple[int, ...], toy: Toy, filters: FilterParameters) -> None:
    _check(widths, toy, filters, FRAMES)


class EmitsTheDraft(TableKernels):
    """Where no child holds the target's draw, the first child's code is emitted in its place."""

    def accept_tree(self, target, parents, node_codes, nodes, last, seeds, frames, path, lengths, codes, *guard):  # type: ignore[no-untyped-def]
        super().accept_tree(target, parents, node_codes, nodes, last, seeds, frames, path, lengths, codes, *guard)
        begin = np.cumsum(nodes) - nodes
        owner = np.repeat(np.arange(len(nodes)), nodes)
        every = np.arange(len(nodes))
        final = path[every, lengths - 1]
        below = np.flatnonzero((parents == final[owner]) & (np.arange(len(owner)) > begin[owner]) & (node_codes >= 0))
        first, at = np.unique(owner[below], return_index=True)
        codes[first, lengths[first] - 1] = node_codes[below[at]]


@pytest.mark.parametrize(("widths", "toy", "filters"), TREES[:1] + TREES[-1:], ids=NAMES[:1] + NAMES[-1:])
def test_the_law_breaks_when_a_drafted_child_is_emitted_on_a_mismatch(
    widths: tuple[int, ...], toy: Toy, filters: FilterParameters
) -> None:
    broken = EmitsTheDraft(toy)
    codes, _ = sample(toy, len(widths) + 1, filters, kernels=broken, rule=COUPLED, count=FEWER_FRAMES, widths=widths)
    assert p_value(toy, filters, codes) < P_BOUND
