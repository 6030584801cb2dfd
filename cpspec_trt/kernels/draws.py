"""Categorical draws as an exponential race, and rejection, which is built on them (the definition, in numpy)."""

from __future__ import annotations

import numpy as np

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.philox import Purpose, gumbel_of, scalar_words, stream, token_words, uniform_of
from cpspec_trt.kernels.protocol import F32, I64, U32, U64, ragged_slots

WITHOUT_MASS = "a distribution without mass reached a categorical draw"


def draw_rows(probabilities: F32, seeds: U64, streams: U32, frames: U32, codes: I64) -> None:
    """argmax over the support of log p(v) + g(v), ties to the lower index; see ``Kernels.draw``.

    Raises:
        NumericError: a row has no mass. A row that passed the filter always has.
    """
    codes[:] = winners(perturbed_rows(probabilities, seeds, streams, frames))


def winners(scores: F32) -> I64:
    """The token that wins each race of ``perturbed_rows`` (float32 [R, V]), int64 [R].

    Raises:
        NumericError: a row has no mass.
    """
    drawn: I64 = np.argmax(scores, axis=1)
    if (scores[np.arange(len(drawn)), drawn] == -np.inf).any():
        raise NumericError(WITHOUT_MASS)
    return drawn


def perturbed_rows(probabilities: F32, seeds: U64, streams: U32, frames: U32) -> F32:
    """What races in a draw: log p(v) + g(v) over the support and -inf elsewhere, float32 [R, V]."""
    rows, tokens = np.nonzero(probabilities > 0)
    noise = gumbel_of(token_words(seeds, streams, frames, rows, tokens))
    scores = np.full(probabilities.shape, -np.inf, np.float32)
    scores[rows, tokens] = np.log(probabilities[rows, tokens]) + noise
    return scores


def accept_rejection(
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
    """Keep x with probability min(1, p(x)/q(x)); at the first rejection draw from norm(max(p - q, 0))."""
    owner, offset = ragged_slots(counts)
    begin = target_begin(counts)
    depth = last[owner] + 1 + offset
    uniforms = uniform_of(scalar_words(seeds[owner], stream(Purpose.ACCEPT, depth, last[owner]), frames[owner]))
    proposed = draft[np.arange(len(drafts)), drafts]
    kept = uniforms * proposed < target[begin[owner] + offset, drafts]
    leading(kept, owner, offset, counts, accepted)

    draw_following(target, draft, np.ones(len(counts), np.float32), counts, last, seeds, frames, accepted, codes)


def draw_following(
    target: F32,
    draft: F32,
    joint: F32,
    counts: I64,
    last: I64,
    seeds: U64,
    frames: U32,
    accepted: I64,
    codes: I64,
) -> None:
    """The code after the accepted drafts: the bonus, or a draw from norm(max(joint * p - q, 0)).

    The bonus is drawn with the target's noise, which is also what the autoregressive loop draws with. Rounding can
    leave a residual without mass; then p itself is drawn from.

    Args:
        target: float32 [sum(counts + 1), V].
        draft: float32 [sum(counts), V].
        joint: float32 [A], how much of p the accepted drafts have left (1 in rejection).
        counts: int64 [A].
        last: int64 [A].
        seeds: uint64 [A].
        frames: uint32 [A].
        accepted: int64 [A], read.
        codes: int64 [A], written.
    """
    begin = target_begin(counts)
    final = target[begin + accepted]
    rejected = np.flatnonzero(accepted < counts)
    slot = (begin - np.arange(len(counts)) + accepted)[rejected]
    residual = np.maximum(joint[rejected, None] * final[rejected] - draft[slot], 0)
    with_mass = residual.any(axis=1)
    final[rejected[with_mass]] = residual[with_mass]
    depth = last + 1 + accepted
    streams = stream(Purpose.TARGET, depth)
    streams[rejected] = stream(Purpose.RESIDUAL, depth[rejected], last[rejected])
    draw_rows(final, seeds, streams, frames, codes)


def target_begin(counts: I64) -> I64:
    """First verified row of each sequence: a sequence with n drafts has n + 1 of them."""
    rows = counts + 1
    return np.asarray(np.cumsum(rows) - rows)


def leading(kept: np.ndarray, owner: I64, offset: I64, counts: I64, accepted: I64) -> None:
    """Write into ``accepted`` how many slots of each sequence were kept before the first that was not."""
    accepted[:] = counts
    np.minimum.at(accepted, owner[~kept], offset[~kept])
