"""Distances and flatness of laws over a codebook."""

from __future__ import annotations

import numpy as np


def overlap(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Sum of min(p, q) over the last axis: 1 - TV, 1 for equal laws."""
    return np.asarray(np.minimum(p, q).sum(axis=-1, dtype=np.float64))


def entropy_bits(p: np.ndarray) -> np.ndarray:
    """Entropy over the last axis; 0 log 0 is 0."""
    logs = np.log2(p, out=np.zeros_like(p), where=p > 0)
    return np.asarray(-(p * logs).sum(axis=-1, dtype=np.float64))


def marginal_overlap(laws: np.ndarray) -> float:
    """Mean overlap of each frame's law (float [frames, V]) with the mean law of the other frames."""
    frames = len(laws)
    if frames < 2:
        return float("nan")
    total = laws.sum(axis=0, dtype=np.float64)
    return float(np.mean([overlap(law, (total - law) / (frames - 1)) for law in laws]))
