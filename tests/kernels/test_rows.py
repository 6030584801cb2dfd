"""Codec embeddings, what a verify pass is fed, the commit of a round, and the KV rows of an accepted path."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.protocol import Kernels

FLOATS = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@pytest.fixture(params=FLOATS)
def dtype(request: pytest.FixtureRequest) -> np.dtype:
    return np.dtype(FLOATS[request.param])


def test_the_feedback_is_the_sum_of_one_row_per_table_in_depth_order(kernels: Kernels, dtype: np.dtype) -> None:
    random = np.random.default_rng(1)
    tables = [random.normal(size=(rows, 70)).astype(dtype) for rows in (20, 9, 9, 9)]
    codes = np.array([[19, 0, 8, 3], [2, 2, 2, 2]])
    feedback = np.full((2, 70), np.nan, np.float32)
    kernels.sum_codec_embeddings(tables, codes, feedback)
    for row in range(2):
        want = np.zeros(70, np.float32)
        for table, code in zip(tables, codes[row], strict=True):
            want = want + table[code].astype(np.float32)
        np.testing.assert_array_equal(feedback[row], want)


def test_other_tables_of_the_same_number_are_seen_by_the_next_call(kernels: Kernels) -> None:
    codes = np.zeros((1, 2), np.int64)
    for value in (1.0, 5.0):
        tables = [np.full((3, 4), value, np.float32), np.full((2, 4), 10 * value, np.float32)]
        feedback = np.empty((1, 4), np.float32)
        kernels.sum_codec_embeddings(tables, codes, feedback)
        assert feedback.tolist() == [[11 * value] * 4]


def test_embeddings_are_gathered_by_table_and_code(kernels: Kernels, dtype: np.dtype) -> None:
    random = np.random.default_rng(2)
    tables = [random.normal(size=(rows, 33)).astype(dtype) for rows in (20, 9, 5)]
    table_ids, codes = np.array([0, 2, 1, 1, 0]), np.array([19, 4, 0, 8, 0])
    out = np.full((5, 33), 7, dtype)
    kernels.gather_codec_embeddings(tables, table_ids, codes, out)
    for row in range(5):
        np.testing.assert_array_equal(out[row], tables[table_ids[row]][codes[row]])


class Round:
    """Five rows of a batch of frames with 8 groups; rows 4, 0 and 2 take part with 2, 0 and 3 drafts."""

    def __init__(self, dtype: np.dtype) -> None:
        random = np.random.default_rng(5)
        self.rows, self.counts = np.array([4, 0, 2]), np.array([2, 0, 3])
        self.drafts = np.array([6, 1, 3, 0, 2])
        self.codes = random.integers(0, 7, (5, 8))
        self.last = np.array([6, 7, 2, 7, 1])
        self.context = random.normal(size=(5, 16)).astype(dtype)
        self.hidden = random.normal(size=(5 * 4, 16)).astype(dtype)
        self.first_hidden = self.rows * 4
        self.target = random.dirichlet(np.ones(7), 8).astype(np.float32)
        self.draft = random.dirichlet(np.ones(7), 5).astype(np.float32)
        self.seeds, self.frames = np.array([3, 2**63, 5], np.uint64), np.array([0, 1, 9], np.uint32)
        self.accepted, self.commits = np.full(3, -7), np.full(5, -7)

    def reject_at(self, slot: int) -> None:
        """Make a slot's draft impossible under its target."""
        owner = np.repeat(np.arange(3), self.counts)[slot]
        self.target[slot + owner, self.drafts[slot]] = 0

    def accept_all(self) -> None:
        owner = np.repeat(np.arange(3), self.counts)
        self.target[np.arange(5) + owner] = self.draft

    def commit(self, kernels: Kernels) -> None:
        kernels.accept_commit(
            self.target,
            self.draft,
            self.drafts,
            self.rows,
            self.counts,
            self.seeds,
            self.frames,
            self.hidden,
            self.first_hidden,
            self.codes,
            self.last,
            self.context,
            self.accepted,
            self.commits,
        )


def test_a_verify_pass_is_fed_the_last_code_and_the_drafts_from_their_own_depths(
    kernels: Kernels, dtype: np.dtype
) -> None:
    state = Round(dtype)
    random = np.random.default_rng(6)
    tables = [random.normal(size=(7, 16)).astype(dtype) for _ in range(8)]
    fed, embeddings = np.full((5, 4), -7), np.full((5, 4, 16), 7, dtype)
    kernels.build_verify_input(tables, state.codes, state.last, state.rows, state.counts, state.drafts, fed, embeddings)
    want = np.zeros((5, 4), np.int64)
    want[4, :3] = state.codes[4, 1], 6, 1
    want[0, :1] = state.codes[0, 6]
    want[2, :4] = state.codes[2, 2], 3, 0, 2
    np.testing.assert_array_equal(fed, want)
    for row, slots in ((4, 3), (0, 1), (2, 4)):
        for slot in range(slots):
            np.testing.assert_array_equal(embeddings[row, slot], tables[state.last[row] + slot][want[row, slot]])
        assert not embeddings[row, slots:].any()
    assert not embeddings[[1, 3]].any()


def test_a_commit_does_what_acceptance_says_and_leaves_other_rows_alone(kernels: Kernels, dtype: np.dtype) -> None:
    state, before = Round(dtype), Round(dtype)
    for each in (state, before):
        each.accept_all()
        each.reject_at(3)
    accepted, codes = np.empty(3, np.int64), np.empty(3, np.int64)
    kernels.accept_rejection(
        before.target,
        before.draft,
        before.drafts,
        before.counts,
        before.last[before.rows],
        before.seeds,
        before.frames,
        accepted,
        codes,
    )
    assert accepted.tolist() == [2, 0, 1]
    state.commit(kernels)
    np.testing.assert_array_equal(state.accepted, accepted)
    want = before.codes.copy()
    want[4, 2:5] = 6, 1, codes[0]
    want[0, 7] = codes[1]
    want[2, 3:5] = 3, codes[2]
    np.testing.assert_array_equal(state.codes, want)
    assert state.last.tolist() == [7, 7, 4, 7, 4]
    assert state.commits.tolist() == [1, 0, 2, 0, 3]
    context = before.context.copy()
    context[4], context[0], context[2] = before.hidden[16 + 2], before.hidden[0], before.hidden[8 + 1]
    np.testing.assert_array_equal(state.context, context)


def test_a_sequence_without_mass_is_an_error_and_its_state_stays(kernels: Kernels, dtype: np.dtype) -> None:
    state, before = Round(dtype), Round(dtype)
    for each in (state, before):
        each.accept_all()
        each.target[2] = 0  # the bonus row of the sequence in row 4
    with pytest.raises(NumericError, match="without mass"):
        state.commit(kernels)
    np.testing.assert_array_equal(state.codes[4], before.codes[4])
    np.testing.assert_array_equal(state.context[4], before.context[4])
    assert state.last[4] == before.last[4]


def test_the_kv_rows_of_an_accepted_path_move_together_in_every_cache(kernels: Kernels, dtype: np.dtype) -> None:
    random = np.random.default_rng(4)
    caches = [random.normal(size=(4, 2, 12, 5)).astype(dtype) for _ in range(3)]
    before = [cache.copy() for cache in caches]
    rows, counts, first = np.array([3, 1]), np.array([3, 2]), np.array([5, 0])
    sources = np.array([5, 7, 10, 1, 4])
    kernels.copy_accepted_rows(caches, rows, counts, first, sources)
    for cache, old in zip(caches, before, strict=True):
        want = old.copy()
        want[3, :, [5, 6, 7]] = old[3][:, [5, 7, 10]].swapaxes(0, 1)
        want[1, :, [0, 1]] = old[1][:, [1, 4]].swapaxes(0, 1)
        np.testing.assert_array_equal(cache, want)


def test_a_source_that_is_absent_copies_nothing(kernels: Kernels, dtype: np.dtype) -> None:
    cache = np.random.default_rng(5).normal(size=(3, 2, 12, 5)).astype(dtype)
    moved = cache.copy()
    sources = np.array([4, 6, -1, -1, -1, -1])
    kernels.copy_accepted_rows([moved], np.array([2, 0]), np.array([3, 3]), np.array([4, 1]), sources)
    want = cache.copy()
    want[2, :, 5] = cache[2, :, 6]
    np.testing.assert_array_equal(moved, want)
