"""On a device what a rule or a tree cannot use counts as absent, and no array is left because of it."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.rules_protocol import AcceptanceRule

FAR = 2**40


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_a_drafted_code_out_of_range_never_stands(cuda: NativeKernels, rule: AcceptanceRule) -> None:
    accepted, codes = np.full((2, 3), -7)
    law = np.full((3, 4), 0.25, np.float32)
    laws = (np.repeat(law, 2, axis=0),) if rule == AcceptanceRule.COUPLED else (np.repeat(law, 2, axis=0), law)
    ones = np.ones(3, np.int64)
    noise = np.arange(3, dtype=np.uint64), np.zeros(3, np.uint32)
    accept = getattr(cuda, f"accept_{rule.name.lower()}")
    accept(*laws, np.array([4, -1, FAR]), ones, ones, *noise, accepted, codes)
    assert accepted.tolist() == [0, 0, 0]
    assert ((codes >= 0) & (codes < 4)).all()


def test_a_tree_whose_count_cannot_be_one_has_no_nodes(cuda: NativeKernels) -> None:
    target = np.eye(4, dtype=np.float32)[np.arange(1025) % 4]
    nodes = np.array([-3, 2, 1026])
    last, noise = np.ones(3, np.int64), (np.arange(3, dtype=np.uint64), np.zeros(3, np.uint32))
    path, codes, lengths = np.full((3, 3), -7), np.full((3, 3), -7), np.full(3, -7)
    parents, node_codes = np.zeros(1025, np.int64), np.full(1025, -1)
    with pytest.raises(NumericError):  # a walk of no nodes decides nothing
        cuda.accept_tree(target, parents, node_codes, nodes, last, *noise, path, lengths, codes)
    assert lengths.tolist() == [0, 1, 0]
    assert path.tolist() == [[-1, -1, -1], [0, -1, -1], [-1, -1, -1]]
    assert codes.tolist() == [[-1, -1, -1], [0, -1, -1], [-1, -1, -1]]


def test_a_node_whose_parent_does_not_lead_to_the_root_is_not_fed_nor_visited(cuda: NativeKernels) -> None:
    tables = [np.full((9, 2), depth, np.float32) for depth in range(1, 6)]
    parents, node_codes = np.array([0, 0, 2, FAR, -1, 1]), np.array([0, 3, 3, 3, 3, 9])
    fed, embeddings = np.full((1, 7), -7), np.full((1, 7, 2), np.nan, np.float32)
    one = np.zeros(1, np.int64)
    cuda.build_tree_input(tables, np.full((1, 5), 8), one + 1, one, parents, node_codes, np.array([6]), fed, embeddings)
    assert fed.tolist() == [[8, 3, 0, 0, 0, 0, 0]]  # the last node's code is in no table
    assert embeddings[0, :, 0].tolist() == [2, 3, 0, 0, 0, 0, 0]
    path, codes, lengths = np.full((1, 3), -7), np.full((1, 3), -7), one.copy()
    target = np.eye(9, dtype=np.float32)[[3, 5, 0, 0, 0, 0]]
    cuda.accept_tree(target, parents, node_codes, np.array([6]), one + 1, np.zeros(1, np.uint64),
                     np.zeros(1, np.uint32), path, lengths, codes)  # fmt: skip
    assert path.tolist() == [[0, 1, -1]]
    assert codes.tolist() == [[3, 5, -1]]


@pytest.mark.parametrize("row", [-1, 3, FAR])
def test_a_tree_that_names_no_row_of_the_batch_is_not_fed(cuda: NativeKernels, row: int) -> None:
    tables = [np.ones((12, 2), np.float32)] * 4
    fed, embeddings = np.full((3, 2), -7), np.full((3, 2, 2), 7, np.float32)
    trees = np.array([row, 1]), np.array([0, 0, 0, 0]), np.array([0, 2, 0, 4]), np.array([2, 2])
    cuda.build_tree_input(tables, np.arange(12).reshape(3, 4), np.array([1, 1, 1]), *trees, fed, embeddings)
    assert fed.tolist() == [[0, 0], [5, 4], [0, 0]]
    assert embeddings[:, :, 0].tolist() == [[0, 0], [1, 1], [0, 0]]


def test_widths_out_of_range_are_cut_to_the_room(cuda: NativeKernels) -> None:
    law = np.full((3, 4), 0.25, np.float32)
    found = np.full((3, 2), -7)
    noise = np.arange(3, dtype=np.uint64), np.zeros(3, np.uint32), np.zeros(3, np.uint32)
    with pytest.raises(NumericError):
        cuda.draw_candidates(law, np.array([-1, FAR, 1]), *noise, found)
    assert found[0].tolist() == [-1, -1]
    assert (found[1] >= 0).all()
    assert found[2, 0] >= 0 > found[2, 1]


@pytest.mark.parametrize(("row", "first_hidden", "last"), [(-1, 0, 1), (3, 0, 1), (FAR, 0, 1), (0, 4, 1), (0, 0, 4)])
def test_a_tree_that_cannot_be_committed_leaves_the_state_as_it_was(
    cuda: NativeKernels, row: int, first_hidden: int, last: int
) -> None:
    state = np.full((3, 5), 9), np.full(3, last), np.full((3, 2), 7, np.float32)
    before = [each.copy() for each in state]
    accepted, commits, sources = np.full(1, -7), np.full(3, -7), np.full((1, 3), -7)
    one, trees = np.zeros(1, np.int64), (np.array([0, 0]), np.array([-1, 2]), np.array([2]))
    with pytest.raises(NumericError):  # accepted is -1
        cuda.accept_commit_tree(np.eye(4, dtype=np.float32)[[1, 3]], np.array([row]), *trees, np.zeros(1, np.uint64),
                                np.zeros(1, np.uint32), np.zeros((4, 2), np.float32), np.array([first_hidden]),
                                *state, one, accepted, commits, sources)  # fmt: skip
    for found, expected in zip(state, before, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert (accepted.tolist(), commits.tolist(), sources.tolist()) == ([-1], [0, 0, 0], [[-1, -1, -1]])
