"""The guard: what decides by less than a tolerance decides nothing, in greedy acceptance and in every commit."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from cpspec_trt.errors import NumericError, UsageError
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.rules_protocol import GUARDED, AcceptanceRule, RuleKernels, Tolerance


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_margin_of_a_row_is_the_gap_between_its_two_best_logits(kernels: RuleKernels, dtype: type) -> None:
    nothing = -np.inf
    logits = np.array([[1, 4, 3.5, 0], [2, -1, 2, 0], [nothing, 5, nothing, nothing], [-0.0, 0, -3, -3]]).astype(dtype)
    codes, errors, margins = np.full(4, -7), np.full(4, -7, np.int32), np.full(4, np.nan, np.float32)
    kernels.argmax(logits, codes, errors, margins)
    assert codes.tolist() == [1, 0, 1, 0]
    assert margins.tolist() == [0.5, 0, math.inf, 0]
    assert not errors.any()


@pytest.mark.parametrize("vocabulary", [1, 2, 97, 5000])
def test_margins_of_random_rows_are_those_of_a_sort(kernels: RuleKernels, vocabulary: int) -> None:
    logits = np.random.default_rng(vocabulary).normal(size=(6, vocabulary)).astype(np.float32)
    codes, errors, margins = np.full(6, -7), np.full(6, -7, np.int32), np.full(6, np.nan, np.float32)
    kernels.argmax(logits, codes, errors, margins)
    rising = np.sort(logits, axis=1)
    np.testing.assert_array_equal(margins, rising[:, -1] - rising[:, -2] if vocabulary > 1 else np.inf)
    np.testing.assert_array_equal(codes, logits.argmax(axis=1))


def test_margins_are_not_written_where_they_are_not_wanted(kernels: RuleKernels) -> None:
    codes, errors = np.full(1, -7), np.full(1, -7, np.int32)
    kernels.argmax(np.array([[0, 2, 1]], np.float32), codes, errors)
    assert codes.tolist() == [1]


def test_greedy_acceptance_looks_at_the_guard_before_the_match(kernels: RuleKernels) -> None:
    counts, drafts = np.array([3, 3, 1, 0]), np.array([4, 5, 6, 4, 5, 6, 1])
    targets = np.array([4, 5, 6, 7, 4, 9, 6, 7, 1, 8, 3])
    margins = np.array([1, 1, 0.1, 1, 1, 1, 0, 0, 1, 0.1, 0.1], np.float32)
    expected = {0.0: ([3, 1, 1, 0], [7, 9, 8, 3]), 0.5: ([2, 1, 1, 0], [GUARDED, 9, GUARDED, GUARDED])}
    for tolerance, want in expected.items():
        accepted, codes = np.full((2, 4), -7)
        kernels.accept_greedy(targets, drafts, counts, accepted, codes, margins, tolerance)
        assert (accepted.tolist(), codes.tolist()) == want


def test_greedy_acceptance_under_guard_equals_the_oracle_on_random_rounds(kernels: RuleKernels) -> None:
    random = np.random.default_rng(3)
    counts = random.integers(0, 8, 2000)
    targets, drafts = random.integers(0, 2, int((counts + 1).sum())), random.integers(0, 2, int(counts.sum()))
    margins = random.random(len(targets)).astype(np.float32)
    results = []
    for each in (OracleKernels(), kernels):
        accepted, codes = np.full((2, 2000), -7)
        each.accept_greedy(targets, drafts, counts, accepted, codes, margins, 0.2)
        results.append([accepted, codes])
    np.testing.assert_array_equal(results[1], results[0])


def test_a_rule_that_is_none_is_refused(native: NativeKernels) -> None:
    with pytest.raises(UsageError, match=r"^cpspec_accept_commit: rule is 3, which is no cpspec_rule"):
        Commit().run(native, 3, None, 0.0)  # type: ignore[arg-type]


class Commit:
    """Three sequences of a batch of four with 2, 0 and 1 drafts, which are what their one-hot targets say."""

    def __init__(self) -> None:
        self.codes = np.full((4, 8), 9)
        self.last = np.array([1, 3, 5, 2])
        self.context = np.zeros((4, 2), np.float32)
        self.accepted, self.commits = np.full(3, -7), np.full(4, -7)
        self.target = np.eye(6, dtype=np.float32)[[3, 4, 5, 1, 2, 0]]
        self.draft = self.target[[0, 1, 4]]

    def run(self, kernels: RuleKernels, rule: AcceptanceRule, margins: np.ndarray | None, tolerance: Tolerance) -> None:
        hidden = np.arange(24, dtype=np.float32).reshape(12, 2)
        state = self.codes, self.last, self.context
        kernels.accept_commit(
            self.target,
            self.draft,
            np.array([3, 4, 2]),
            np.array([3, 0, 1]),
            np.array([2, 0, 1]),
            np.arange(3, dtype=np.uint64),
            np.zeros(3, np.uint32),
            hidden,
            np.array([9, 0, 3]),
            *state,
            self.accepted,
            self.commits,
            rule,
            tolerance,
            margins,
        )


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_a_commit_of_one_hot_rows_is_greedy_under_every_rule(kernels: RuleKernels, rule: AcceptanceRule) -> None:
    state = Commit()
    state.run(kernels, rule, None, 0.0)
    assert state.accepted.tolist() == [2, 0, 1]
    assert state.commits.tolist() == [1, 2, 0, 3]
    assert state.codes[3].tolist() == [9, 9, 9, 3, 4, 5, 9, 9]
    assert state.codes[0].tolist() == [9, 9, 1, 9, 9, 9, 9, 9]
    assert state.codes[1].tolist() == [9, 9, 9, 9, 2, 0, 9, 9]
    assert state.last.tolist() == [2, 5, 5, 5]
    assert state.context.tolist() == [[0, 1], [8, 9], [0, 0], [22, 23]]


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_a_guarded_sequence_commits_its_drafts_alone_and_stays_where_it_has_none(
    kernels: RuleKernels, rule: AcceptanceRule
) -> None:
    state = Commit()
    state.run(kernels, rule, np.array([1, 0.1, 1, 0.2, 1, 1], np.float32), 0.5)
    assert state.accepted.tolist() == [1, 0, 1]
    assert state.commits.tolist() == [0, 2, 0, 1]
    assert state.codes[3].tolist() == [9, 9, 9, 3, 9, 9, 9, 9]
    assert (state.codes[0] == 9).all()
    assert state.last.tolist() == [1, 5, 5, 3]
    assert state.context.tolist() == [[0, 0], [8, 9], [0, 0], [18, 19]]


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_every_sequence_has_a_tolerance_of_its_own(kernels: RuleKernels, rule: AcceptanceRule) -> None:
    state = Commit()
    state.run(kernels, rule, np.full(6, 0.3, np.float32), np.array([0.2, 0.4, 0], np.float32))
    assert state.accepted.tolist() == [2, 0, 1]
    assert state.commits.tolist() == [0, 2, 0, 3]  # the sequence in row 0 alone is guarded


def test_coupled_and_greedy_sequences_have_tolerances_of_their_own(kernels: RuleKernels) -> None:
    random = np.random.default_rng(3)
    law = random.dirichlet(np.ones(5), 400).astype(np.float32)
    none, counts = np.empty(0, np.int64), np.zeros(400, np.int64)
    noise = counts + 1, np.arange(400, dtype=np.uint64), np.zeros(400, np.uint32)
    each = np.tile(np.array([0, 0.3, 10], np.float32), 134)[:400]
    margins = random.random(400).astype(np.float32)
    for coupled in (True, False):
        found = []
        for tolerance in (0.0, np.float32(0.3), 10.0, each):
            accepted, codes = np.full((2, 400), -7)
            if coupled:
                kernels.accept_coupled(law, none, counts, *noise, accepted, codes, tolerance)
            else:
                kernels.accept_greedy(counts + 2, none, counts, accepted, codes, margins, tolerance)
            found.append(codes)
        np.testing.assert_array_equal(found[3], np.choose(np.arange(400) % 3, found[:3]))
        guarded = [int((codes == GUARDED).sum()) for codes in found]
        assert 0 == guarded[0] < guarded[1] < guarded[2]


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_margins_of_rows_that_are_not_reached_guard_nothing(kernels: RuleKernels, rule: AcceptanceRule) -> None:
    state = Commit()
    state.target[0] = np.eye(6, dtype=np.float32)[5]  # the first draft is not what its target says
    state.run(kernels, rule, np.array([1, 0, 0, 1, 1, 1], np.float32), 0.5)
    assert state.accepted.tolist() == [0, 0, 1]
    assert state.commits.tolist() == [1, 2, 0, 1]
    assert state.codes[3].tolist() == [9, 9, 9, 5, 9, 9, 9, 9]


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_a_row_without_mass_is_an_error_under_every_rule_and_its_sequence_stays(
    kernels: RuleKernels, rule: AcceptanceRule
) -> None:
    state = Commit()
    state.target[2] = 0  # what decides the sequence in row 3
    with pytest.raises(NumericError, match="without mass"):
        state.run(kernels, rule, None, 0.0)
    assert (state.codes[3] == 9).all()
    assert state.last[3] == 2
    assert not state.context[3].any()


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_a_commit_is_what_the_rule_decides_for_sampled_rows(kernels: RuleKernels, rule: AcceptanceRule) -> None:
    random = np.random.default_rng(7)
    for seed in range(20):
        state = Commit()
        state.target = random.dirichlet(np.ones(6), 6).astype(np.float32)
        state.draft = random.dirichlet(np.ones(6), 3).astype(np.float32)
        noise = np.arange(3, dtype=np.uint64), np.zeros(3, np.uint32)
        drafts, counts = np.array([3, 4, 2]), np.array([2, 0, 1])
        accepted, codes = np.full((2, 3), -7)
        laws = (state.target,) if rule == AcceptanceRule.COUPLED else (state.target, state.draft)
        accept = getattr(kernels, f"accept_{rule.name.lower()}")
        accept(*laws, drafts, counts, state.last[[3, 0, 1]], *noise, accepted, codes)
        state.run(kernels, rule, None, 0.0)
        assert state.accepted.tolist() == accepted.tolist(), seed
        own = [state.codes[row, state.last[row]] for row in (3, 0, 1)]
        assert own == codes.tolist()
