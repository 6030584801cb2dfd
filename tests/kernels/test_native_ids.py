"""The CPU library names an id that is out of range; what it had written before stays inside its arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cpspec_trt.errors import UnsupportedError, UsageError
from cpspec_trt.kernels.native import NativeKernels
from tests.kernels.implementations import CPU_LEVELS, cpu_kernels


@pytest.fixture(scope="module")
def cpu() -> NativeKernels:
    return cpu_kernels(CPU_LEVELS[0])


HEADS, HIDDEN = np.ones((2, 5, 3), np.float32), np.ones((4, 3), np.float32)
LAW = np.full((3, 5), 0.2, np.float32)


@pytest.mark.parametrize(
    ("rows", "heads", "message"),
    [([4], [0], "hidden_rows holds 4"), ([-1], [0], "hidden_rows holds -1"), ([0], [2], "head_rows holds 2")],
)
def test_rows_and_heads(cpu: NativeKernels, rows: list[int], heads: list[int], message: str) -> None:
    with pytest.raises(UsageError, match=f"^cpspec_grouped_heads: rows->{message}, it must be at least 0 and below"):
        cpu.grouped_heads(HIDDEN, np.array(rows), np.array(heads), HEADS, np.empty((1, 5), np.float32))


@pytest.mark.parametrize("code", [-1, 5])
def test_drafts(cpu: NativeKernels, code: int) -> None:
    one, word = np.ones(1, np.int64), np.zeros(1, np.uint32)
    with pytest.raises(UsageError, match=f"drafts->codes holds {code}, it must be at least 0 and below 5"):
        cpu.accept_rejection(
            LAW[:2], LAW[:1], np.array([code]), one, one, np.zeros(1, np.uint64), word, one.copy(), one.copy()
        )


@pytest.mark.parametrize(("counts", "wrong"), [([2, -1], -1), ([257, -256], 257)])
def test_counts(cpu: NativeKernels, counts: list[int], wrong: int) -> None:
    with pytest.raises(UsageError, match=f"drafts->counts holds {wrong}, it must be at least 0 and below 256"):
        cpu.accept_greedy(np.zeros(3, int), np.zeros(1, int), np.array(counts), np.zeros(2, int), np.zeros(2, int))


def test_a_frame_of_more_groups_than_the_noise_has_depths(cpu: NativeKernels) -> None:
    one = np.zeros(1, np.int64)
    with pytest.raises(UnsupportedError, match="state->groups is 257, at most 256 are supported"):
        cpu.build_verify_input(
            [np.ones((3, 4), np.float32)],
            np.zeros((1, 257), np.int64),
            one,
            one,
            one,
            np.empty(0, int),
            np.empty((1, 1), int),
            np.empty((1, 1, 4), np.float32),
        )


@pytest.mark.parametrize(("table", "code"), [(2, 0), (0, 3), (1, 4), (0, -1)])
def test_codes_of_tables(cpu: NativeKernels, table: int, code: int) -> None:
    tables = [np.ones((3, 4), np.float32), np.ones((4, 4), np.float32)]
    with pytest.raises(UsageError, match="it must be at least 0 and below"):
        cpu.gather_codec_embeddings(tables, np.array([table]), np.array([code]), np.empty((1, 4), np.float32))


def test_a_frame_without_room_for_the_drafts_and_their_code(cpu: NativeKernels) -> None:
    tables = [np.ones((3, 4), np.float32)] * 4
    codes, last = np.zeros((1, 4), np.int64), np.array([2])
    one = np.zeros(1, np.int64)
    cpu.build_verify_input(
        tables, codes, last, one, one, np.empty(0, int), np.empty((1, 1), int), np.empty((1, 1, 4), np.float32)
    )
    with pytest.raises(UsageError, match="state->last holds 2, it must be at least 0 and below 2"):
        cpu.build_verify_input(
            tables, codes, last, one, one + 1, one, np.empty((1, 2), int), np.empty((1, 2, 4), np.float32)
        )


def _tree(nodes: list[int], parents: list[int], codes: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.array(parents), np.array(codes), np.array(nodes)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (_tree([0, 2], [0, 0], [0, 1]), "trees->nodes is 0, it must be at least 1"),
        (_tree([2], [0, 1], [0, 1]), "trees->parents holds 1, it must be at least 0 and below 1"),
        (_tree([2], [0, -1], [0, 1]), "trees->parents holds -1, it must be at least 0 and below 1"),
        (_tree([1025], [0] * 1025, [0] * 1025), "trees->nodes holds 1025, it must be at least 0 and below 1025"),
    ],
)
def test_trees(cpu: NativeKernels, tree: tuple[np.ndarray, np.ndarray, np.ndarray], message: str) -> None:
    sequences = len(tree[2])
    last, seeds, frames = np.ones(sequences, int), np.zeros(sequences, np.uint64), np.zeros(sequences, np.uint32)
    path, lengths = np.empty((sequences, 2), int), np.empty(sequences, int)
    with pytest.raises(UsageError, match=f"^cpspec_accept_tree: {message}"):
        cpu.accept_tree(
            np.ones((len(tree[0]), 5), np.float32), *tree, last, seeds, frames, path, lengths, path.copy(), 0.0, None
        )


@pytest.mark.parametrize(("code", "last"), [(3, 1), (-2, 1), (1, 3)])
def test_nodes_without_an_embedding(cpu: NativeKernels, code: int, last: int) -> None:
    tables = [np.ones((3, 4), np.float32)] * 4
    one, fed = np.zeros(1, np.int64), np.empty((1, 2), int)
    parents, codes, nodes = _tree([2], [0, 0], [0, code])
    with pytest.raises(UsageError, match="it must be at least 0 and below"):
        cpu.build_tree_input(
            tables, np.zeros((1, 4), int), one + last, one, parents, codes, nodes, fed, np.empty((1, 2, 4), np.float32)
        )


@pytest.mark.parametrize(("width", "message"), [(0, "widths is 0"), (3, "widths holds 3")])
def test_widths(cpu: NativeKernels, width: int, message: str) -> None:
    word, found = np.zeros(1, np.uint32), np.empty((1, 2), int)
    with pytest.raises(UsageError, match=f"^cpspec_draw_candidates: {message}"):
        cpu.draw_candidates(LAW[:1], np.array([width]), np.zeros(1, np.uint64), word, word, found)


def test_kv_rows_that_would_overwrite_what_is_still_to_be_read(cpu: NativeKernels) -> None:
    caches = [np.zeros((1, 1, 8, 2), np.float32)]
    one = np.zeros(1, np.int64)
    with pytest.raises(UsageError, match="first holds 5, it must be at least 0 and below 5"):
        cpu.copy_accepted_rows(caches, one, one + 1, np.array([5]), np.array([4]))
    with pytest.raises(UsageError, match="counts holds -1, it must be at least 0 and below 9"):
        cpu.copy_accepted_rows(caches, np.zeros(2, int), np.array([2, -1]), np.zeros(2, int), one)
    with pytest.raises(UsageError, match="sources holds 8, it must be at least 0 and below 8"):
        cpu.copy_accepted_rows(caches, one, one + 1, one, np.array([8]))


@pytest.mark.parametrize("tolerance", [-0.1, math.nan])
def test_a_tolerance_that_is_none_is_refused(cpu: NativeKernels, tolerance: float) -> None:
    one, word = np.zeros(1, np.int64), np.zeros(1, np.uint32)
    with pytest.raises(UsageError, match=r"^cpspec_accept_greedy: tolerances holds (-0.1|nan), it must be at least 0$"):
        cpu.accept_greedy(one, np.empty(0, int), one, one.copy(), one.copy(), None, tolerance)
    law, seeds = np.ones((1, 3), np.float32), np.zeros(1, np.uint64)
    with pytest.raises(UsageError, match=r"^cpspec_accept_coupled: tolerances holds"):
        cpu.accept_coupled(law, np.empty(0, int), one, one, seeds, word, one.copy(), one.copy(), tolerance)
