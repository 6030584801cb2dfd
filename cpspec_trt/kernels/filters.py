"""Logits to probabilities: temperature, top-k, top-p, renormalise (the definition, in numpy).

Ties go to the lower index, and exactly top_k candidates survive. PyTorch's top-k filter keeps every candidate
tied with the k-th; on real logits that never shows. Top-p keeps the smallest prefix, in order of falling logit
and then of rising index, whose mass reaches top_p, the token that crosses it whole.
"""

from __future__ import annotations

import numpy as np

from cpspec_trt.kernels.faults import ALL_MASKED, NOT_FINITE, SOUND
from cpspec_trt.kernels.protocol import F32, GREEDY_BELOW, I32, I64, FilterRows, Logits


def filter_rows(logits: Logits, filters: FilterRows, probabilities: F32, errors: I32) -> None:
    """See ``Kernels.filter``."""
    vocabulary = logits.shape[1]
    greedy = filters.temperature < np.float32(GREEDY_BELOW)
    temperature = filters.temperature.copy()
    temperature[greedy] = 1
    with np.errstate(over="ignore"):  # an overflow becomes inf, which flag_rows reports
        shifted: F32 = np.asarray(logits, np.float32) / temperature[:, None]
    highest = flag_rows(shifted, errors)
    faulty = errors != SOUND
    shifted[faulty] = highest[faulty] = 0
    shifted -= highest[:, None]
    kept = np.where((filters.top_k == 0) | (filters.top_k > vocabulary), vocabulary, filters.top_k)
    kept[greedy] = 1
    top_p = filters.top_p.copy()
    top_p[greedy] = 1
    for count in np.unique(kept):
        rows = np.flatnonzero(kept == count)
        _filter_group(shifted, rows, int(count), top_p[rows], probabilities)
    probabilities[faulty] = 0


def flag_rows(logits: F32, errors: I32) -> F32:
    """Write each row's flag into ``errors`` int32 [R] and return its maximum, float32 [R]."""
    highest: F32 = logits.max(axis=1)
    errors[:] = SOUND
    errors[np.isnan(highest) | (highest == np.inf)] = NOT_FINITE
    errors[highest == -np.inf] = ALL_MASKED
    return highest


def argmax_rows(logits: Logits, codes: I64, errors: I32) -> None:
    """See ``Kernels.argmax``."""
    widened = np.asarray(logits, np.float32)
    flag_rows(widened, errors)
    np.argmax(widened, axis=1, out=codes)
    codes[errors != SOUND] = -1


def _filter_group(shifted: F32, rows: I64, count: int, top_p: F32, probabilities: F32) -> None:
    """Filter the rows that keep ``count`` candidates; ``shifted`` has its maximum at 0."""
    vocabulary = shifted.shape[1]
    group = shifted if len(rows) == len(shifted) else shifted[rows]
    if count == vocabulary:
        weights = np.exp(group)
        _cut_to_mass(group, weights, top_p)
        probabilities[rows] = _normalised(weights)
        return
    survivors = _survivors(group, count)
    candidates = np.take_along_axis(group, survivors, axis=1)
    weights = np.exp(candidates)
    _cut_to_mass(candidates, weights, top_p)
    probabilities[rows] = 0
    probabilities[rows[:, None], survivors] = _normalised(weights)


def _survivors(logits: F32, count: int) -> I64:
    """Indices, ascending, of the ``count`` largest of each row, the lower index first among equals."""
    vocabulary = logits.shape[1]
    border = np.partition(logits, vocabulary - count, axis=1)[:, vocabulary - count, None]
    above = logits > border
    tied = logits == border
    room = count - above.sum(axis=1, keepdims=True)
    kept = above | (tied & (np.cumsum(tied, axis=1) <= room))
    return np.nonzero(kept)[1].reshape(len(logits), count)


def _cut_to_mass(logits: F32, weights: F32, top_p: F32) -> None:
    """Zero the weights beyond the smallest prefix that holds ``top_p`` of the row's mass."""
    rows = np.flatnonzero(top_p < 1)
    if not len(rows):
        return
    order = np.argsort(-logits[rows], axis=1, kind="stable")
    falling = np.take_along_axis(weights[rows], order, axis=1).astype(np.float64)
    mass = np.cumsum(falling, axis=1)
    # A token is cut where the mass before it suffices already, so the one that crosses the border stays whole.
    enough = mass[:, :-1] >= top_p[rows, None].astype(np.float64) * mass[:, -1:]
    cut_rows, cut_ranks = np.nonzero(enough)
    weights[rows[cut_rows], order[cut_rows, cut_ranks + 1]] = 0


def _normalised(weights: F32) -> F32:
    # Summed in one sequential order, so that a row's sum does not depend on the shape of the batch.
    mass = np.cumsum(weights, axis=1, dtype=np.float64)[:, -1:].astype(np.float32)
    weights /= mass
    return weights
