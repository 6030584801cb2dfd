"""A plain step: a round without drafts. Its empty buffers reach a library as NULL, see test_arrays.py."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import Kernels

SEQUENCES, VOCABULARY = 3, 7
NO_CODES, NO_LAWS = np.empty(0, np.int64), np.empty((0, VOCABULARY), np.float32)
NONE = np.zeros(SEQUENCES, np.int64)
SEEDS, FRAMES = np.arange(SEQUENCES, dtype=np.uint64), np.full(SEQUENCES, 4, np.uint32)
LAST = np.array([1, 5, 2])


@pytest.fixture(scope="module")
def target() -> np.ndarray:
    return np.random.default_rng(1).dirichlet(np.ones(VOCABULARY), SEQUENCES).astype(np.float32)


@pytest.fixture
def drawn(kernels: Kernels, target: np.ndarray) -> np.ndarray:
    """What the autoregressive loop draws at the same place."""
    codes = np.full(SEQUENCES, -7)
    kernels.draw(target, SEEDS, stream(Purpose.TARGET, LAST + 1), FRAMES, codes)
    return codes


def test_greedy_acceptance_emits_the_target(kernels: Kernels) -> None:
    accepted, codes = np.full((2, SEQUENCES), -7)
    kernels.accept_greedy(np.array([4, 0, 6]), NO_CODES, NONE, accepted, codes)
    assert accepted.tolist() == [0, 0, 0]
    assert codes.tolist() == [4, 0, 6]


def test_rejection_draws_what_the_autoregressive_loop_draws(
    kernels: Kernels, target: np.ndarray, drawn: np.ndarray
) -> None:
    accepted, codes = np.full((2, SEQUENCES), -7)
    kernels.accept_rejection(target, NO_LAWS, NO_CODES, NONE, LAST, SEEDS, FRAMES, accepted, codes)
    assert accepted.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(codes, drawn)


def test_a_commit_commits_one_code(kernels: Kernels, target: np.ndarray, drawn: np.ndarray) -> None:
    codes, last = np.full((SEQUENCES, 8), 9), LAST.copy()
    hidden, context = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((SEQUENCES, 4), np.float32)
    accepted, commits = np.full((2, SEQUENCES), -7)
    kernels.accept_commit(
        target,
        NO_LAWS,
        NO_CODES,
        np.arange(SEQUENCES),
        NONE,
        SEEDS,
        FRAMES,
        hidden,
        np.array([2, 1, 0]),
        codes,
        last,
        context,
        accepted,
        commits,
    )
    assert accepted.tolist() == [0, 0, 0]
    assert commits.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(last, LAST + 1)
    np.testing.assert_array_equal(codes[np.arange(SEQUENCES), LAST + 1], drawn)
    assert (codes == 9).sum() >= codes.size - SEQUENCES
    np.testing.assert_array_equal(context, hidden[[2, 1, 0]])


def test_the_verify_pass_is_fed_the_last_code_alone(kernels: Kernels) -> None:
    tables = [np.full((VOCABULARY, 2), depth, np.float32) for depth in range(8)]
    codes = np.arange(24).reshape(3, 8) % VOCABULARY
    fed, embeddings = np.full((3, 2), -7), np.full((3, 2, 2), np.nan, np.float32)
    kernels.build_verify_input(tables, codes, LAST, np.arange(SEQUENCES), NONE, NO_CODES, fed, embeddings)
    np.testing.assert_array_equal(fed, np.stack([codes[np.arange(3), LAST], NONE], 1))
    np.testing.assert_array_equal(embeddings[:, 0, 0], LAST)
    assert not embeddings[:, 1].any()


def test_no_kv_row_moves(kernels: Kernels) -> None:
    cache = np.random.default_rng(2).normal(size=(SEQUENCES, 2, 5, 4)).astype(np.float32)
    moved = cache.copy()
    kernels.copy_accepted_rows([moved], np.arange(SEQUENCES), NONE, LAST, NO_CODES)
    np.testing.assert_array_equal(moved, cache)
