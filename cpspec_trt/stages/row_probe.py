"""Whether passes of several rows have the bits of single rows, and the tolerance that follows where they have not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

FRAMES = 2  # of random input; each compares every position of a frame
# Both of the two best logits may be off, in opposite directions: 2. The rest is for input that no probe has seen.
TOLERANCE_FACTOR = 8.0


@dataclass(frozen=True, slots=True)
class RowProbe:
    """What passes of several rows do to the bits of single steps.

    Attributes:
        exact: whether every hidden row came out the same.
        difference: largest difference of a logit between the two.
    """

    exact: bool
    difference: float

    @property
    def tolerance(self) -> float:
        """Gap of two logits below which a pass of several rows decides nothing; 0 where rows are exact."""
        return 0.0 if self.exact else TOLERANCE_FACTOR * self.difference


def compare_rows(pairs: Iterable[tuple[np.ndarray, np.ndarray]], first_head: int, heads: np.ndarray) -> RowProbe:
    """Compare rows of single steps with those of wider passes.

    Args:
        pairs: per frame, hidden rows [batch, positions, H] of single steps and of wider passes; the latter may end
            earlier.
        first_head: the head that reads the first position; each following position has the next one.
        heads: float32 [heads, V, H].
    """
    exact, difference = True, 0.0
    for ones, many in pairs:
        ones = ones[:, : many.shape[1]]
        exact &= np.array_equal(ones, many)
        change = ones.astype(np.float32) - many.astype(np.float32)  # logits are linear in it
        for at in range(change.shape[1]):
            difference = max(difference, float(np.abs(change[:, at] @ heads[first_head + at].T).max()))
    return RowProbe(bool(exact), difference)
