"""Laws of a known overlap: at every depth and offset sum min(p, q) = 1 - TV(p, q) is the number asked for."""

from __future__ import annotations

import numpy as np

GROUPS, CODEBOOK, SETS = 16, 64, 32


class ControlledPredictor:
    """``Predictor`` without a network: a frame's laws depend on a number it starts with and on the depth alone.

    Attributes:
        heads: float32 [G-1, V, SETS * G]; a row is one-hot over the set and the position.
        overlap: what was asked for.
    """

    def __init__(self, overlap: float, seed: int = 0) -> None:
        """Make targets and, for each, a draft of that overlap."""
        self.overlap = overlap
        self.groups, self.codebook, self.hidden_size = GROUPS, CODEBOOK, SETS * GROUPS
        random = np.random.default_rng(seed)
        self.targets = random.dirichlet(np.full(CODEBOOK, 0.3), (SETS, GROUPS))
        self.targets = 0.999 * self.targets + 0.001 / CODEBOOK
        self.drafts = np.empty_like(self.targets)
        for at in np.ndindex(SETS, GROUPS):
            self.drafts[at] = _with_overlap(self.targets[at], overlap)
        self.heads = np.empty((GROUPS - 1, CODEBOOK, self.hidden_size), np.float32)
        for depth in range(1, GROUPS):
            for position in range(GROUPS):
                laws = self.targets if position == depth else self.drafts
                self.heads[depth - 1, :, position::GROUPS] = np.log(laws[:, depth]).T
        self._set, self._length = 0, 0

    def start_frame(self, talker_hidden: np.ndarray, first_codes: np.ndarray) -> np.ndarray:
        self._set, self._length = int(talker_hidden[0, 0]), 2
        return self._rows(np.array([1]))[0]

    def verify(self, codes: np.ndarray) -> np.ndarray:
        return self._rows(self._length + np.arange(codes.shape[1]))

    def verify_tree(self, codes: np.ndarray, depths: np.ndarray, parents: np.ndarray) -> np.ndarray:
        return self._rows(self._length + depths[0])

    def commit(self, counts: np.ndarray) -> None:
        self._length += int(counts[0])

    def commit_path(self, rows: np.ndarray, counts: np.ndarray, sources: np.ndarray) -> None:
        self._length += int(counts[0])

    def _rows(self, positions: np.ndarray) -> np.ndarray:
        rows = np.zeros((1, len(positions), self.hidden_size), np.float32)
        inside = np.minimum(positions, GROUPS - 1)
        rows[0, np.arange(len(positions)), self._set * GROUPS + inside] = 1
        return rows

    def marginal_overlap(self) -> float:
        """The same for a draft that knows nothing of the frame: the mean of the targets of its depth."""
        mean = self.targets.mean(axis=0, keepdims=True)
        return float(np.minimum(self.targets, mean).sum(axis=2)[:, 1:].mean())


def _with_overlap(target: np.ndarray, overlap: float) -> np.ndarray:
    """A law q with sum min(p, q) = overlap: p mixed with p in reversed order of probability."""
    order = np.argsort(target)
    other = np.empty_like(target)
    other[order] = target[order[::-1]]
    low, high = 0.0, 1.0
    for _ in range(60):
        share = (low + high) / 2
        law = (1 - share) * target + share * other
        low, high = (share, high) if np.minimum(target, law).sum() > overlap else (low, share)
    return law
