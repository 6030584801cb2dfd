"""Counts of the frame in work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpspec_trt.speculation.round import Outcome
from cpspec_trt.speculation.statistics import SpeculationStatistics


class FrameCounters:
    """Counts of the frame in work, as arrays over the batch, so that a round costs no Python per row."""

    def __init__(self, max_batch: int, max_drafts: int) -> None:
        """Bind the arrays for the largest batch and window."""
        self._rounds = np.zeros(max_batch, np.int64)
        self._codes = np.zeros(max_batch, np.int64)
        self._guarded = np.zeros(max_batch, np.int64)
        self._by_offset = np.zeros((max_batch, 3, max_drafts), np.int64)
        self._offsets = np.arange(max_drafts)

    def start(self, batch: int) -> None:
        """Begin a frame."""
        self._rounds[:batch] = 0
        self._codes[:batch] = 0
        self._guarded[:batch] = 0
        self._by_offset[:batch] = 0

    def add(self, outcome: Outcome) -> None:
        """Count a round."""
        rows, proposed, accepted = outcome.rows, outcome.proposed[:, None], outcome.accepted[:, None]
        self._rounds[rows] += 1
        self._codes[rows] += outcome.committed
        self._guarded[rows] += outcome.guarded
        self._by_offset[rows, 0] += self._offsets < proposed
        self._by_offset[rows, 1] += (self._offsets < proposed) & (self._offsets <= accepted)
        self._by_offset[rows, 2] += self._offsets < accepted

    def report(self, statistics: Sequence[SpeculationStatistics], rules: Sequence[str | None]) -> None:
        """Add the finished frame to each row's counters, under the name of its rule (None: autoregressive)."""
        for row, (target, rule) in enumerate(zip(statistics, rules, strict=True)):
            rounds = int(self._rounds[row])
            if rule is None:
                target.add_autoregressive_frame(passes=1 + rounds)
            else:
                proposed, reached, accepted = self._by_offset[row].tolist()
                codes, guarded = int(self._codes[row]), int(self._guarded[row])
                target.add_frame(rule, rounds, codes, proposed, reached, accepted, guarded)
