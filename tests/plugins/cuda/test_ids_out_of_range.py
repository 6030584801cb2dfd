"""On a device an id out of range cannot be refused: it counts as absent, and no array is left because of it."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.faults import NOT_FINITE, SOUND
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows

FAR = 2**40


def test_a_head_or_hidden_row_out_of_range_is_reported_as_not_finite(cuda: NativeKernels) -> None:
    random = np.random.default_rng(0)
    heads = random.normal(size=(3, 40, 16)).astype(np.float32)
    hidden = random.normal(size=(4, 16)).astype(np.float32)
    hidden_rows = np.array([0, -1, 4, FAR, 2, 3, 1])
    head_rows = np.array([0, 0, 0, 0, 3, -1, FAR])
    rows = len(hidden_rows)
    logits = np.full((rows, 40), 7, np.float32)
    probabilities = np.full((rows, 40), np.nan, np.float32)
    codes, errors = np.full(rows, -7), np.full(rows, -7, np.int32)
    cuda.draft(
        hidden,
        hidden_rows,
        head_rows,
        heads,
        FilterRows.pack([FilterParameters(1.0, 5, 1.0)] * rows),
        np.zeros(rows, np.uint64),
        np.zeros(rows, np.uint32),
        np.zeros(rows, np.uint32),
        logits,
        probabilities,
        codes,
        errors,
    )
    assert errors.tolist() == [SOUND] + [NOT_FINITE] * 6
    assert codes[0] >= 0
    assert (codes[1:] == -1).all()
    assert np.isnan(logits[1:]).all()
    assert not probabilities[1:].any()


def test_a_code_or_table_out_of_range_has_no_embedding(cuda: NativeKernels) -> None:
    tables = [np.full((5, 4), table + 1, np.float32) for table in range(3)]
    out = np.full((6, 4), 7, np.float32)
    cuda.gather_codec_embeddings(tables, np.array([0, 2, 3, -1, 1, 1]), np.array([4, 5, 0, 0, -1, FAR]), out)
    np.testing.assert_array_equal(out[:, 0], [1, 0, 0, 0, 0, 0])
    feedback = np.full((2, 4), 7, np.float32)
    cuda.sum_codec_embeddings(tables, np.array([[0, 9, 0], [-1, FAR, 1]]), feedback)
    np.testing.assert_array_equal(feedback[:, 0], [4, 3])


@pytest.mark.parametrize("row", [-1, 3, FAR])
def test_a_sequence_that_names_no_row_of_the_batch_feeds_and_commits_nothing(cuda: NativeKernels, row: int) -> None:
    codes, last = np.arange(12).reshape(3, 4), np.array([1, 1, 1])
    tables = [np.ones((12, 2), np.float32)] * 4
    fed, embeddings = np.full((3, 2), -7), np.full((3, 2, 2), 7, np.float32)
    rows, counts, drafts = np.array([row, 1]), np.array([1, 1]), np.array([0, 0])
    cuda.build_verify_input(tables, codes, last, rows, counts, drafts, fed, embeddings)
    np.testing.assert_array_equal(fed, [[0, 0], [5, 0], [0, 0]])
    np.testing.assert_array_equal(embeddings[:, :, 0], [[0, 0], [1, 1], [0, 0]])
    committed = _commit(cuda, codes, last, rows, np.array([0, 2]), drafts)
    np.testing.assert_array_equal(committed, [0, 2, 0])


def _commit(
    cuda: NativeKernels,
    codes: np.ndarray,
    last: np.ndarray,
    rows: np.ndarray,
    first_hidden: np.ndarray,
    drafts: np.ndarray,
) -> np.ndarray:
    """Two sequences of one draft each, whose target has all its mass on code 0."""
    target = np.tile(np.array([1, 0], np.float32), (4, 1))
    draft = np.tile(np.array([1, 0], np.float32), (2, 1))
    accepted, commits = np.full(2, -7), np.full(len(codes), -7)
    context, hidden = np.zeros((len(codes), 2), np.float32), np.ones((4, 2), np.float32)
    seeds, frames = np.zeros(2, np.uint64), np.zeros(2, np.uint32)
    with pytest.raises(NumericError):  # a sequence that is left as it was has accepted = -1
        cuda.accept_commit(
            target,
            draft,
            drafts,
            rows,
            np.array([1, 1]),
            seeds,
            frames,
            hidden,
            first_hidden,
            codes,
            last,
            context,
            accepted,
            commits,
        )
    assert accepted.tolist().count(-1) == 1
    return commits


def test_a_commit_beyond_the_frame_or_from_a_hidden_row_that_is_not_there_leaves_the_state_alone(
    cuda: NativeKernels,
) -> None:
    codes, rows = np.full((2, 4), 9), np.array([0, 1])
    for last, first_hidden in ((np.array([2, 1]), np.array([0, 2])), (np.array([1, 1]), np.array([FAR, 2]))):
        state, at = codes.copy(), last.copy()
        commits = _commit(cuda, state, at, rows, first_hidden, np.array([0, 0]))
        np.testing.assert_array_equal(commits, [0, 2])
        np.testing.assert_array_equal(state, [[9, 9, 9, 9], [9, 9, 0, 0]])
        np.testing.assert_array_equal(at, [last[0], 3])


def test_a_drafted_code_out_of_range_never_stands(cuda: NativeKernels) -> None:
    accepted, codes = np.full(3, -7), np.full(3, -7)
    law = np.full((3, 4), 0.25, np.float32)
    target = np.repeat(law, 2, axis=0)
    drafts = np.array([4, -1, FAR])
    cuda.accept_rejection(
        target,
        law,
        drafts,
        np.ones(3, np.int64),
        np.ones(3, np.int64),
        np.arange(3, dtype=np.uint64),
        np.zeros(3, np.uint32),
        accepted,
        codes,
    )
    assert accepted.tolist() == [0, 0, 0]
    assert ((codes >= 0) & (codes < 4)).all()


def test_a_count_that_cannot_be_one_is_none(cuda: NativeKernels) -> None:
    accepted, codes = np.full((2, 3), -7)
    targets, drafts = np.arange(303), np.full(300, 1)
    cuda.accept_greedy(targets, drafts, np.array([-1, 1, 300]), accepted, codes)
    assert accepted.tolist() == [0, 1, 0]
    assert codes.tolist() == [0, 2, 3]
    cache = np.arange(2 * 4 * 2, dtype=np.float32).reshape(2, 1, 4, 2)
    moved = cache.copy()
    cuda.copy_accepted_rows([moved], np.array([0, 1]), np.array([-5, 6]), np.array([0, 0]), np.array([3]))
    np.testing.assert_array_equal(moved, cache)


def test_cache_rows_out_of_range_stay_where_they_are(cuda: NativeKernels) -> None:
    cache = np.arange(2 * 4 * 2, dtype=np.float32).reshape(1, 2, 4, 2)
    moved = cache.copy()
    cuda.copy_accepted_rows([moved], np.array([0]), np.array([3]), np.array([1]), np.array([2, 4, -1]))
    want = cache.copy()
    want[:, :, 1] = cache[:, :, 2]
    np.testing.assert_array_equal(moved, want)
    cuda.copy_accepted_rows([moved], np.array([1]), np.array([1]), np.array([0]), np.array([1]))
    np.testing.assert_array_equal(moved, want)
