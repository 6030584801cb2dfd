"""Block verification, coupling, trees and the guard: worked examples, and the written definition number by number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.rules_protocol import GUARDED, AcceptanceRule
from tests.kernels import definition
from tests.kernels.test_acceptance import Rounds

KERNELS = OracleKernels()
NEAR_TIE = 1e-5
ROUNDS = Rounds.random(400, 7, 3)
# Law of the draft, law of the target, expected accepted drafts of a round of two under rejection and under block.
WORKED = {
    "the paper's example": ([2 / 3, 1 / 3], [1 / 3, 2 / 3], 10 / 9, 11 / 9),
    "by hand": ([3 / 4, 1 / 4], [1 / 2, 1 / 2], 21 / 16, 22 / 16),
}


def _begins(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First verified row and first draft of each sequence."""
    return np.cumsum(counts + 1) - (counts + 1), np.cumsum(counts) - counts


def _block(
    target: np.ndarray, draft: np.ndarray, drafts: Sequence[int], uniforms: Sequence[float]
) -> tuple[int, np.ndarray | None, float]:
    """Accepted drafts, the residual (None: the bonus follows) and how near a decision came to another, in float64."""
    joint, kept, residual_scale, near = 1.0, 0, 1.0, math.inf
    for slot, (code, uniform) in enumerate(zip(drafts, uniforms, strict=True), start=1):
        joint = min(joint * target[slot - 1][code] / draft[slot - 1][code], 1.0)
        bound = joint
        if slot < len(drafts):
            reach = np.maximum(joint * target[slot] - draft[slot], 0).sum()
            bound = 1.0 if reach + 1 - joint == 0 else reach / (reach + 1 - joint)
        near = min(near, abs(uniform - bound))
        if uniform <= bound:
            kept, residual_scale = slot, joint
    if kept == len(drafts):
        return kept, None, near
    return kept, np.maximum(residual_scale * target[kept] - draft[kept], 0), near


def test_block_follows_the_written_definition_except_at_counted_near_ties() -> None:
    rounds = ROUNDS
    accepted, codes = np.empty((2, len(rounds.counts)), np.int64)
    KERNELS.accept_block(
        rounds.target,
        rounds.draft,
        rounds.drafts,
        rounds.counts,
        rounds.last,
        rounds.seeds,
        rounds.frames,
        accepted,
        codes,
    )
    verified, drafted = _begins(rounds.counts)
    close = 0
    for row, count in enumerate(rounds.counts.tolist()):
        seed, frame, last = int(rounds.seeds[row]), int(rounds.frames[row]), int(rounds.last[row])
        target = rounds.target[verified[row] : verified[row] + count + 1].astype(float)
        own = slice(drafted[row], drafted[row] + count)
        streams = [definition.stream(definition.ACCEPT, last + 1 + slot, last) for slot in range(count)]
        uniforms = [definition.uniform(definition.word(seed, frame, each)) for each in streams]
        kept, residual, near = _block(target, rounds.draft[own].astype(float), rounds.drafts[own].tolist(), uniforms)
        depth = last + 1 + kept
        if residual is None:
            code, lead = definition.drawn(target[kept], seed, frame, definition.stream(definition.TARGET, depth))
        else:
            law = residual if residual.any() else target[kept]
            code, lead = definition.drawn(law, seed, frame, definition.stream(definition.RESIDUAL, depth, last))
        close += min(near, lead) < NEAR_TIE
        assert (accepted[row], codes[row]) == (kept, code) or min(near, lead) < NEAR_TIE
    assert close <= 4
    assert set(accepted.tolist()) == set(range(8))


@pytest.mark.parametrize(("draft", "target", "rejection", "block"), WORKED.values(), ids=WORKED)
def test_worked_examples_have_their_expected_number_of_accepted_drafts(
    draft: list[float], target: list[float], rejection: float, block: float
) -> None:
    sequences = 40_000
    p, q = np.array(target, np.float32), np.array(draft, np.float32)
    counts, last = np.full(sequences, 2), np.ones(sequences, np.int64)
    drafts = np.random.default_rng(0).choice(2, 2 * sequences, p=draft)
    seeds, frames = np.arange(sequences, dtype=np.uint64), np.zeros(sequences, np.uint32)
    laws = np.tile(p, (3 * sequences, 1)), np.tile(q, (2 * sequences, 1))
    for accept, expected in ((KERNELS.accept_rejection, rejection), (KERNELS.accept_block, block)):
        accepted, codes = np.empty((2, sequences), np.int64)
        accept(*laws, drafts, counts, last, seeds, frames, accepted, codes)
        error = accepted.std() / math.sqrt(sequences)
        assert abs(accepted.mean() - expected) < 4 * error


def test_every_round_of_one_draft_is_the_same_under_block_and_rejection() -> None:
    random = np.random.default_rng(5)
    draft = random.dirichlet(np.ones(6), 500).astype(np.float32)
    target = random.dirichlet(np.ones(6), 1000).astype(np.float32)
    drafts, counts, last = random.integers(0, 6, 500), np.ones(500, np.int64), np.full(500, 3)
    seeds, frames = np.arange(500, dtype=np.uint64), np.zeros(500, np.uint32)
    got = []
    for accept in (KERNELS.accept_rejection, KERNELS.accept_block):
        accepted, codes = np.empty((2, 500), np.int64)
        accept(target, draft, drafts, counts, last, seeds, frames, accepted, codes)
        got.append((accepted, codes))
    np.testing.assert_array_equal(got[0], got[1])


def test_coupled_emits_the_draws_of_the_autoregressive_loop_and_stops_where_drafts_differ() -> None:
    rounds = ROUNDS
    owner = np.repeat(np.arange(len(rounds.counts)), rounds.counts + 1)
    verified, drafted = _begins(rounds.counts)
    offset = np.arange(len(owner)) - verified[owner]
    streams = stream(Purpose.TARGET, rounds.last[owner] + 1 + offset)
    plain = np.empty(len(owner), np.int64)
    KERNELS.draw(rounds.target, rounds.seeds[owner], streams, rounds.frames[owner], plain)
    guess = np.random.default_rng(1).random(len(rounds.drafts)) < 0.7
    drafts = np.where(guess, plain[offset < rounds.counts[owner]], rounds.drafts)
    accepted, codes = np.empty((2, len(rounds.counts)), np.int64)
    KERNELS.accept_coupled(
        rounds.target, drafts, rounds.counts, rounds.last, rounds.seeds, rounds.frames, accepted, codes
    )
    for row, count in enumerate(rounds.counts.tolist()):
        own = plain[verified[row] : verified[row] + count + 1].tolist()
        proposed = drafts[drafted[row] : drafted[row] + count].tolist()
        stands = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(own, proposed, strict=False)))
        assert (accepted[row], codes[row]) == (stands, own[stands])
    assert 0 < (accepted == rounds.counts).mean() < 1


def test_a_row_that_leads_by_less_than_the_tolerance_is_guarded_and_the_drafts_before_it_stand() -> None:
    counts, drafts = np.array([3, 3, 1, 0]), np.array([4, 5, 6, 4, 5, 6, 1])
    targets = np.array([4, 5, 6, 7, 4, 9, 6, 7, 1, 8, 3])
    margins = np.array([1, 1, 0.1, 1, 1, 1, 0, 0, 1, 0.1, 0.1], np.float32)
    for tolerance, want in ((0.0, ([3, 1, 1, 0], [7, 9, 8, 3])), (0.5, ([2, 1, 1, 0], [GUARDED, 9, GUARDED, GUARDED]))):
        accepted, codes = np.empty((2, 4), np.int64)
        KERNELS.accept_greedy(targets, drafts, counts, accepted, codes, margins, tolerance)
        assert (accepted.tolist(), codes.tolist()) == want


def test_the_margin_of_a_row_is_the_gap_between_its_two_best_logits() -> None:
    logits = np.array([[1, 4, 3.5, 0], [2, 2, 1, 0], [-np.inf, 5, -np.inf, -np.inf]], np.float32)
    codes, errors, margins = np.empty(3, np.int64), np.empty(3, np.int32), np.empty(3, np.float32)
    KERNELS.argmax(logits, codes, errors, margins)
    assert codes.tolist() == [1, 0, 1]
    assert margins.tolist() == [0.5, 0.0, math.inf]


def test_coupled_guards_by_the_gap_of_the_perturbed_log_probabilities() -> None:
    law = np.random.default_rng(2).dirichlet(np.ones(5), 300).astype(np.float32)
    seeds, frames, last = np.arange(300, dtype=np.uint64), np.zeros(300, np.uint32), np.full(300, 2)
    guarded = []
    for tolerance in (0.0, 0.3):
        accepted, codes = np.empty((2, 300), np.int64)
        none = np.zeros(300, np.int64)
        KERNELS.accept_coupled(law, np.empty(0, np.int64), none, last, seeds, frames, accepted, codes, tolerance)
        guarded.append(codes == GUARDED)
        assert not accepted.any()
    leads = [
        definition.drawn(row.astype(float), seed, 0, definition.stream(definition.TARGET, 3))[1]
        for seed, row in enumerate(law)
    ]
    assert not guarded[0].any()
    np.testing.assert_array_equal(guarded[1], np.array(leads) < 0.3)
    assert 20 < guarded[1].sum() < 200


def test_candidates_are_the_first_of_the_race_and_fewer_where_the_support_is_small() -> None:
    law = np.random.default_rng(3).dirichlet(np.ones(6), 200).astype(np.float32)
    law[::4, 2:] = 0
    seeds, frames, widths = np.arange(200, dtype=np.uint64), np.zeros(200, np.uint32), np.arange(200) % 3 + 1
    streams = stream(Purpose.TARGET, np.arange(200) % 9 + 1)
    candidates, drawn = np.empty((200, 3), np.int64), np.empty(200, np.int64)
    KERNELS.draw_candidates(law, widths, seeds, streams, frames, candidates)
    KERNELS.draw(law, seeds, streams, frames, drawn)
    np.testing.assert_array_equal(candidates[:, 0], drawn)
    for row in range(200):
        noise = [definition.gumbel(definition.word(row, 0, int(streams[row]), token)) for token in range(6)]
        scores = {token: math.log(p) + noise[token] for token, p in enumerate(law[row].tolist()) if p > 0}
        best = sorted(scores, key=lambda token: -scores[token])[: widths[row]]
        assert candidates[row].tolist() == best + [-1] * (3 - len(best))
    law[5] = 0
    with pytest.raises(NumericError, match="without mass"):
        KERNELS.draw_candidates(law, widths, seeds, streams, frames, candidates)


def test_a_walk_goes_to_the_child_that_holds_the_targets_draw_and_emits_the_draw_where_there_is_none() -> None:
    one_hot = np.eye(4, dtype=np.float32)
    # Two trees over four codes: root, two children, two children of each; then a root alone.
    parents = np.array([9, 0, 0, 1, 1, 2, 2, 9])
    node_codes = np.array([9, 1, 3, 0, 2, 0, 2, 9])
    target = one_hot[[3, 0, 2, 0, 0, 0, 1, 2]]
    path, codes, lengths = np.empty((2, 3), np.int64), np.empty((2, 3), np.int64), np.empty(2, np.int64)
    arguments = (np.array([7, 1]), np.array([1, 5]), np.array([3, 4], np.uint64), np.zeros(2, np.uint32))
    KERNELS.accept_tree(target, parents, node_codes, *arguments, path, lengths, codes)
    assert path.tolist() == [[0, 2, 6], [0, -1, -1]]
    assert codes.tolist() == [[3, 2, 1], [2, -1, -1]]
    assert lengths.tolist() == [3, 1]
    target[2] = one_hot[1]  # no child of node 2 holds code 1
    KERNELS.accept_tree(target, parents, node_codes, *arguments, path, lengths, codes)
    assert (path[0].tolist(), codes[0].tolist(), lengths[0]) == ([0, 2, -1], [3, 1, -1], 2)
    margins = np.array([1, 1, 0.1, 1, 1, 1, 1, 0.1], np.float32)
    KERNELS.accept_tree(target, parents, node_codes, *arguments, path, lengths, codes, 0.5, margins)
    assert path.tolist() == [[0, 2, -1], [0, -1, -1]]
    assert codes.tolist() == [[3, GUARDED, -1], [GUARDED, -1, -1]]


def test_a_child_that_does_not_exist_is_never_gone_to() -> None:
    target = np.eye(4, dtype=np.float32)[[3, 1, 1, 3, 0]]
    parents, node_codes = np.array([9, 9, 0, 0, 0]), np.array([9, 9, -1, 2, -1])  # a root, then a root of three
    path, codes, lengths = np.empty((2, 2), np.int64), np.empty((2, 2), np.int64), np.empty(2, np.int64)
    arguments = (np.array([1, 4]), np.array([1, 5]), np.array([3, 4], np.uint64), np.zeros(2, np.uint32))
    KERNELS.accept_tree(target, parents, node_codes, *arguments, path, lengths, codes)
    assert codes.tolist() == [[3, -1], [1, -1]]
    assert lengths.tolist() == [1, 1]


def test_a_tree_of_one_branch_is_walked_as_the_chain_of_its_drafts_guard_included() -> None:
    rounds = ROUNDS
    owner = np.repeat(np.arange(len(rounds.counts)), rounds.counts + 1)
    verified, _ = _begins(rounds.counts)
    offset = np.arange(len(owner)) - verified[owner]
    drafts = np.random.default_rng(7).integers(0, 2, len(rounds.drafts))
    law = rounds.target.copy()
    law[:, 2:] *= 0.01  # so that chains agree with their drafts for a while
    law[:, :2] += 0.01
    node_codes = np.full(len(owner), -9)
    node_codes[offset > 0] = drafts
    sequences = len(rounds.counts)
    for tolerance in (0.0, 0.4):
        accepted, following = np.empty((2, sequences), np.int64)
        noise = rounds.last, rounds.seeds, rounds.frames
        KERNELS.accept_coupled(law, drafts, rounds.counts, *noise, accepted, following, tolerance)
        path, codes = np.empty((2, sequences, 8), np.int64)
        lengths = np.empty(sequences, np.int64)
        KERNELS.accept_tree(law, offset - 1, node_codes, rounds.counts + 1, *noise, path, lengths, codes, tolerance)
        np.testing.assert_array_equal(lengths - 1, accepted)
        np.testing.assert_array_equal(codes[np.arange(sequences), accepted], following)
        assert (following == GUARDED).any() is np.bool_(tolerance > 0)
        assert len(set(accepted.tolist())) > 4


class _Commit:
    """Three sequences of a batch of four, with 2, 0 and 1 drafts, that agree with their targets."""

    def __init__(self) -> None:
        self.codes = np.full((4, 8), 9)
        self.last = np.array([1, 3, 5, 2])
        self.context = np.zeros((4, 2), np.float32)
        self.accepted, self.commits = np.empty(3, np.int64), np.empty(4, np.int64)

    def run(self, rule: AcceptanceRule, margins: np.ndarray | None, tolerance: float) -> None:
        laws = np.eye(6, dtype=np.float32)[[3, 4, 5, 1, 2, 0]]
        hidden = np.arange(24, dtype=np.float32).reshape(12, 2)
        KERNELS.accept_commit(
            laws,
            laws[[0, 1, 4]],
            np.array([3, 4, 2]),
            np.array([3, 0, 1]),
            np.array([2, 0, 1]),
            np.arange(3, dtype=np.uint64),
            np.zeros(3, np.uint32),
            hidden,
            np.array([9, 0, 3]),
            self.codes,
            self.last,
            self.context,
            self.accepted,
            self.commits,
            rule=rule,
            tolerance=tolerance,
            margins=margins,
        )


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_a_commit_of_one_hot_rows_is_greedy_under_every_rule(rule: AcceptanceRule) -> None:
    state = _Commit()
    state.run(rule, None, 0.0)
    assert state.accepted.tolist() == [2, 0, 1]
    assert state.commits.tolist() == [1, 2, 0, 3]
    assert state.codes[3, 3:6].tolist() == [3, 4, 5]
    assert state.codes[0, 2] == 1
    assert state.codes[1, 4:6].tolist() == [2, 0]
    assert state.last.tolist() == [2, 5, 5, 5]
    assert state.context.tolist() == [[0, 1], [8, 9], [0, 0], [22, 23]]


@pytest.mark.parametrize("rule", AcceptanceRule)
def test_a_guarded_sequence_commits_its_drafts_alone_and_stays_where_it_has_none(rule: AcceptanceRule) -> None:
    state = _Commit()
    state.run(rule, np.array([1, 0.1, 1, 0.2, 1, 1], np.float32), 0.5)
    assert state.accepted.tolist() == [1, 0, 1]
    assert state.commits.tolist() == [0, 2, 0, 1]
    assert state.codes[3, 3:6].tolist() == [3, 9, 9]
    assert (state.codes[0] == 9).all()
    assert state.last.tolist() == [1, 5, 5, 3]
    assert state.context.tolist() == [[0, 0], [8, 9], [0, 0], [18, 19]]
