"""The acceptance rules beyond rejection in numpy, vectorised over sequences: the definition of ``RuleKernels``.

Block verification (Sun et al., arXiv 2403.10444, algorithm 2; slots counted 1 ... n, 0/0 counts as 1):

    b_0 = 1,  b_i = min(b_(i-1) p_i(x_i) / q_i(x_i), 1)
    h_n = b_n,  h_i = S_i / (S_i + 1 - b_i)  with  S_i = sum over v of max(b_i p_(i+1)(v) - q_(i+1)(v), 0)
    tau = the largest i with eta_i <= h_i; there is no early stop
    then the bonus from p_(n+1) if tau = n, else a draw from norm(max(b_tau p_(tau+1) - q_(tau+1), 0))
"""

from __future__ import annotations

import numpy as np

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.draws import WITHOUT_MASS, draw_following, leading, perturbed_rows, target_begin, winners
from cpspec_trt.kernels.philox import Purpose, scalar_words, stream, uniform_of
from cpspec_trt.kernels.protocol import F32, I64, U32, U64, Rows, ragged_slots
from cpspec_trt.kernels.rules_protocol import GUARDED, Tolerance


def tolerances_of(tolerance: Tolerance, sequences: int) -> F32:
    """One tolerance per sequence, float32 [A]."""
    return np.broadcast_to(np.asarray(tolerance, np.float32), sequences)


def top_gap(scores: F32) -> F32:
    """Gap between the two best of each row [R, V], float32 [R]; +inf where fewer than two are above -inf."""
    gap = np.full(len(scores), np.inf, np.float32)
    if scores.shape[1] > 1:
        second, best = np.partition(scores, scores.shape[1] - 2, axis=1)[:, -2:].T
        np.subtract(best, second, out=gap, where=second > -np.inf)
    return gap


def accept_greedy(
    targets: I64, drafts: I64, counts: I64, accepted: I64, codes: I64, margins: F32 | None, tolerance: Tolerance
) -> None:
    """See ``RuleKernels.accept_greedy``."""
    verified = np.repeat(tolerances_of(tolerance, len(counts)), counts + 1)
    guarded = np.zeros(len(targets), np.bool_) if margins is None else margins < verified
    _follow(targets, guarded, drafts, counts, accepted, codes)


def accept_coupled(
    target: F32,
    drafts: I64,
    counts: I64,
    last: I64,
    seeds: U64,
    frames: U32,
    accepted: I64,
    codes: I64,
    tolerance: Tolerance,
) -> None:
    """See ``RuleKernels.accept_coupled``."""
    owner, offset = ragged_slots(counts + 1)
    streams = stream(Purpose.TARGET, last[owner] + 1 + offset)
    scores = perturbed_rows(target, seeds[owner], streams, frames[owner])
    drawn = np.argmax(scores, axis=1)
    drawn[scores[np.arange(len(drawn)), drawn] == -np.inf] = -1  # equals no draft, so a round ends there
    _follow(drawn, top_gap(scores) < tolerances_of(tolerance, len(counts))[owner], drafts, counts, accepted, codes)
    if (codes == -1).any():
        raise NumericError(WITHOUT_MASS)


def accept_block(
    target: F32,
    draft: F32,
    drafts: I64,
    counts: I64,
    last: I64,
    seeds: U64,
    frames: U32,
    accepted: I64,
    codes: I64,
) -> None:
    """See ``RuleKernels.accept_block``."""
    verified = target_begin(counts)
    drafted = verified - np.arange(len(counts))
    joint = np.ones(len(counts), np.float32)
    kept_joint = np.ones(len(counts), np.float32)  # b_tau
    accepted[:] = 0
    for slot in range(int(counts.max(initial=0))):
        active = np.flatnonzero(counts > slot)
        row, guess = verified[active] + slot, drafted[active] + slot
        chosen, proposed = target[row, drafts[guess]], draft[guess, drafts[guess]]
        ratio = np.divide(chosen, proposed, out=np.ones_like(chosen), where=proposed > 0)
        ratio[joint[active] == 0] = 1  # 0 stays 0, whatever overflows beside it
        joint[active] = np.minimum(joint[active] * ratio, np.float32(1))
        bound = joint[active]
        longer = np.flatnonzero(counts[active] > slot + 1)
        bound[longer] = _reach(joint[active][longer], target[row[longer] + 1], draft[guess[longer] + 1])
        words = scalar_words(seeds[active], _accept_stream(last[active], slot), frames[active])
        stands = active[uniform_of(words) <= bound]
        accepted[stands] = slot + 1
        kept_joint[stands] = joint[stands]
    draw_following(target, draft, kept_joint, counts, last, seeds, frames, accepted, codes)


def draw_candidates(probabilities: F32, widths: I64, seeds: U64, streams: U32, frames: U32, candidates: I64) -> None:
    """See ``RuleKernels.draw_candidates``."""
    scores = perturbed_rows(probabilities, seeds, streams, frames)
    wanted = min(candidates.shape[1], scores.shape[1])
    order = np.argsort(-scores, axis=1, kind="stable")[:, :wanted]
    found = np.take_along_axis(scores, order, axis=1) > -np.inf
    if not found[:, 0].all():
        raise NumericError(WITHOUT_MASS)
    candidates.fill(-1)
    candidates[:, :wanted] = np.where(found & (np.arange(wanted) < widths[:, None]), order, -1)


def accept_tree(
    target: F32,
    parents: I64,
    node_codes: I64,
    nodes: I64,
    last: I64,
    seeds: U64,
    frames: U32,
    path: I64,
    path_lengths: I64,
    codes: I64,
    tolerance: Tolerance,
    margins: F32 | None,
    places: I64 | None,
) -> None:
    """See ``RuleKernels.accept_tree``."""
    if places is not None:
        node_codes = codes_of_nodes(node_codes, places)
    tolerances = tolerances_of(tolerance, len(nodes))
    owner, index = ragged_slots(nodes)
    begin = np.cumsum(nodes) - nodes
    vocabulary = target.shape[1]
    below = np.flatnonzero((index > 0) & (node_codes >= 0))
    edges = (begin[owner[below]] + parents[below]) * vocabulary + node_codes[below]
    order = np.argsort(edges)
    edges, children = edges[order], below[order]
    path.fill(-1)
    codes.fill(-1)
    walking, node = np.arange(len(nodes)), begin.copy()
    for depth in range(path.shape[1]):
        streams = stream(Purpose.TARGET, last[walking] + 1 + depth)
        scores = perturbed_rows(target[node], seeds[walking], streams, frames[walking])
        drawn = winners(scores)
        guarded = top_gap(scores) < tolerances[walking]
        if margins is not None:
            guarded |= margins[node] < tolerances[walking]
        path[walking, depth] = node - begin[walking]
        codes[walking, depth] = np.where(guarded, GUARDED, drawn)
        path_lengths[walking] = depth + 1
        at = np.searchsorted(edges, node * vocabulary + drawn)
        onward = ~guarded & (at < len(edges))
        onward[onward] = edges[at[onward]] == (node * vocabulary + drawn)[onward]
        walking, node = walking[onward], children[at[onward]]
        if not len(walking):
            return


def codes_of_nodes(codes: I64, places: I64) -> I64:
    """The code of every node of trees that share their codes, int64 [sum(nodes)]; -1 where a node does not exist."""
    return np.append(codes, -1)[np.clip(places, -1, codes.size)]


def commit_tree(
    path: I64,
    decided: I64,
    committed: I64,
    rows: I64,
    hidden: Rows,
    first_hidden: I64,
    codes: I64,
    last: I64,
    context: Rows,
) -> None:
    """Commit what walks decided.

    Args:
        path: int64 [A, D], visited nodes.
        decided: int64 [A, D], their codes.
        committed: int64 [A], how many of them are committed.
        rows, hidden, first_hidden, codes, last, context: as for ``RuleKernels.accept_commit_tree``.
    """
    owner, step = ragged_slots(committed)
    codes[rows[owner], last[rows[owner]] + 1 + step] = decided[owner, step]
    last[rows] += committed
    moved = np.flatnonzero(committed)
    context[rows[moved]] = hidden[first_hidden[moved] + path[moved, committed[moved] - 1]]


def guard(margins: F32, tolerance: Tolerance, counts: I64, accepted: I64, codes: I64) -> None:
    """Cut every sequence at its first row, of those it reached, whose margin is below the tolerance.

    Args:
        margins: float32 [sum(counts + 1)].
        tolerance: of margins.
        counts: int64 [A].
        accepted: int64 [A], what a rule accepted; lowered to the guarded row.
        codes: int64 [A], ``GUARDED`` is written there.
    """
    owner, offset = ragged_slots(counts + 1)
    close = np.flatnonzero((margins < tolerances_of(tolerance, len(counts))[owner]) & (offset <= accepted[owner]))
    codes[owner[close]] = GUARDED
    np.minimum.at(accepted, owner[close], offset[close])


def _follow(targets: I64, guarded: np.ndarray, drafts: I64, counts: I64, accepted: I64, codes: I64) -> None:
    """Go on while an unguarded row's code equals its draft; the row where that ends gives the code."""
    owner, offset = ragged_slots(counts)
    begin = target_begin(counts)
    row = begin[owner] + offset
    leading((targets[row] == drafts) & ~guarded[row], owner, offset, counts, accepted)
    codes[:] = np.where(guarded[begin + accepted], GUARDED, targets[begin + accepted])


def _accept_stream(last: I64, slot: int) -> U32:
    return stream(Purpose.ACCEPT, last + 1 + slot, last)


def _reach(joint: F32, target: F32, draft: F32) -> F32:
    """h_i of slots that are not the last: float32 [N] of b_i [N], p_(i+1) and q_(i+1) [N, V]."""
    excess = np.maximum(joint[:, None] * target - draft, 0)
    mass = np.cumsum(excess, axis=1, dtype=np.float64)[:, -1].astype(np.float32)
    whole = mass + (np.float32(1) - joint)
    return np.divide(mass, whole, out=np.ones_like(mass), where=whole > 0)
