"""Rules on logits alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpspec_trt.kernels.faults import RowNumericError
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.rules import GreedyRule, RejectionRule, RowSampling, Rule, Slots

GREEDY = FilterParameters(1.0, 0, 1.0, do_sample=False)
ROWS = 5
CODEBOOK = 6


def _sampling(parameters: FilterParameters) -> RowSampling:
    return RowSampling.pack([parameters] * ROWS, np.arange(ROWS), np.arange(ROWS) + 10)


def _run(rule: Rule, seed: int, parameters: FilterParameters) -> list[list[int]]:
    random = np.random.default_rng(seed)
    counts = random.integers(0, 4, ROWS)
    rows, last = np.arange(ROWS), random.integers(1, 9, ROWS)
    slots, verified = Slots.spread(rows, last, counts), Slots.spread(rows, last, counts + 1)
    logits = random.integers(-2, 3, (len(verified.row), CODEBOOK)).astype(np.float32)
    hints = logits[verified.offset < counts[verified.row]]
    disturbed = hints + random.integers(0, 2, hints.shape).astype(np.float32)
    drafts = np.empty(len(slots.row), np.int64)
    accepted, codes = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    rule.propose(disturbed, slots, _sampling(parameters), drafts)
    rule.decide(logits, verified, _sampling(parameters), drafts, counts, accepted, codes)
    return [drafts.tolist(), accepted.tolist(), codes.tolist()]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_rejection_of_greedy_rows_is_the_greedy_rule_ties_included(seed: int) -> None:
    greedy = GreedyRule(OracleKernels(), 20, 20, CODEBOOK)
    rejection = RejectionRule(OracleKernels(), 20, 20, CODEBOOK)
    assert _run(greedy, seed, GREEDY) == _run(rejection, seed, GREEDY)


def test_slots_name_the_depth_each_of_them_decides() -> None:
    slots = Slots.spread(np.array([4, 7, 9]), np.array([1, 5, 2]), np.array([2, 0, 1]))
    assert slots.row.tolist() == [4, 4, 9]
    assert slots.depth.tolist() == [2, 3, 3]
    assert slots.last.tolist() == [1, 1, 2]


@pytest.mark.parametrize("kind", [GreedyRule, RejectionRule])
def test_a_fault_in_a_draft_names_the_depth_of_its_slot(kind: type[GreedyRule] | type[RejectionRule]) -> None:
    rule = kind(OracleKernels(), 20, 20, CODEBOOK)
    slots = Slots.spread(np.array([1, 3]), np.array([2, 4]), np.array([1, 2]))
    logits = np.zeros((3, CODEBOOK), np.float32)
    logits[2, 0] = np.nan
    with pytest.raises(RowNumericError, match="batch row 3, frame 13, RVQ depth 6: "):
        rule.propose(logits, slots, _sampling(FilterParameters(1.0, 0, 1.0)), np.empty(3, np.int64))
