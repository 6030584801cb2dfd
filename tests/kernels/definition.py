"""The mathematics once more, in plain Python and float64, one number at a time: what the kernels are tested with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MASK = 0xFFFFFFFF
TARGET, DRAFT, ACCEPT, RESIDUAL, TALKER = range(5)


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox4x32-10, written from the paper's pseudo-code."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 1 << 32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return [c0, c1, c2, c3]


def word(seed: int, frame: int, stream: int, token: int | None = None) -> int:
    """The 32-bit word of a token, or of a scalar."""
    quad, lane = (0, 0) if token is None else divmod(token, 4)
    return philox((quad, stream, frame, 0), (seed & MASK, seed >> 32))[lane]


def uniform(bits: int) -> float:
    value = (np.float32(bits) + np.float32(0.5)) * np.float32(2.0**-32)
    return float(min(value, np.float32(1 - 2.0**-24)))


def gumbel(bits: int) -> float:
    return -math.log(-math.log1p(-uniform(bits)))


def stream(purpose: int, depth: int, last: int = 0) -> int:
    if purpose in (DRAFT, ACCEPT, RESIDUAL):
        return purpose * 2**16 + last * 2**8 + depth
    return purpose * 2**16 + depth


def filtered(logits: np.ndarray, temperature: float, top_k: int, top_p: float) -> tuple[np.ndarray, float]:
    """Probabilities and how near the row comes to a different top-p support, as a share of the mass."""
    count = len(logits)
    order = sorted(range(count), key=lambda index: (-float(logits[index]), index))
    if temperature < 1e-3:
        return np.eye(count)[order[0]], 1.0
    top = float(logits[order[0]])
    kept = order[: min(top_k, count) if top_k else count]
    weights = {index: math.exp((float(logits[index]) - top) / float(np.float32(temperature))) for index in kept}
    total = math.fsum(weights.values())
    law = np.zeros(count)
    nearest = 1.0
    mass = 0.0
    for index in kept:
        if top_p < 1:
            nearest = min(nearest, abs(mass / total - float(np.float32(top_p))))
            if mass / total >= float(np.float32(top_p)):
                break
        law[index] = weights[index]
        mass += weights[index]
    return law / law.sum(), nearest


def drawn(law: np.ndarray, seed: int, frame: int, stream_word: int) -> tuple[int, float]:
    """The winner of the race and its lead over the runner-up."""
    scores = sorted(
        (-(math.log(p) + gumbel(word(seed, frame, stream_word, token))), token) for token, p in enumerate(law) if p > 0
    )
    lead = scores[1][0] - scores[0][0] if len(scores) > 1 else math.inf
    return scores[0][1], lead
