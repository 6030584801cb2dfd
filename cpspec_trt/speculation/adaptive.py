"""Window and width chosen round by round, by what was accepted so far and what passes take.

A frame is a walk from c_1 to its last code; a round at c_m with drafts w commits 1 ... n+1 codes. Where a draft at
offset t behind c_m stands with chance a(m, t, k) of its k candidates, the cheapest way to the end follows from the end
backwards:

    cost(m) = min over w of  time(w) + sum over j of chance(j codes from c_m under w) cost(m + j)

The chances are counts, shrunk towards those of all depths at the same offset and width, and these towards a prior.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.kernels.protocol import I64
from cpspec_trt.speculation.policy import Widths
from cpspec_trt.speculation.round import Outcome
from cpspec_trt.speculation.tree import tree_rows

GIVE_UP_AFTER = 24  # rounds in a row in which no draft stood, in any row of the batch
PROBE_EVERY = 60  # passes between two rounds that draft all the same: less than 2 %
REPLAN_EVERY = 16  # rounds
_PRIOR = 0.5  # acceptance of an offset before anything was seen
_WIDER = 0.45  # chance of a miss falls with the width k as k ** -0.45 before anything was seen
_PRIOR_WEIGHT, _DEPTH_WEIGHT = 4.0, 24.0  # in drafts


class AdaptivePolicy:
    """A ``Policy`` that learns. The same rounds and costs give the same choices: no clock takes part."""

    def __init__(self, groups: int, choices: Sequence[Widths], costs: PassCosts) -> None:
        """Begin without knowledge.

        Args:
            groups: G, code groups of a frame.
            choices: what may be drafted, beside plain steps.
            costs: what passes take.
        """
        self._groups = groups
        self._choices: tuple[Widths, ...] = ((), *dict.fromkeys(choices))
        self._times = [_time(widths, costs) for widths in self._choices]
        deepest, widest = max(map(len, self._choices)), max(max(each, default=1) for each in self._choices)
        self._counts = np.zeros((2, groups, deepest, widest + 1))  # reached, accepted
        self._probes = 0
        self.reset()

    @property
    def largest(self) -> Sequence[Widths]:
        """See ``Policy``."""
        return self._choices

    @property
    def probes(self) -> int:
        """See ``Policy``."""
        return self._probes

    def reset(self) -> None:
        """Forget everything: a request's choices are its own."""
        self._counts.fill(0)
        self._rounds = self._misses = self._since_probe = 0
        self._plan: list[Widths] = []

    def choose(self, last: I64) -> Widths:
        """See ``Policy.choose``. The row that is furthest behind decides for all."""
        if self._rounds % REPLAN_EVERY == 0 or not self._plan:
            self._plan = self._planned()
        self._rounds += 1
        m = int(last.min())
        drafts = min(len(self._plan[m]), self._groups - 2 - m)
        wanted = self._plan[m][:drafts]
        if self._groups - 2 - m <= 0:
            return ()
        if wanted and self._misses < GIVE_UP_AFTER:
            return wanted
        self._since_probe += 1
        if self._since_probe < PROBE_EVERY:
            return ()
        self._since_probe = 0
        self._probes += 1
        return wanted or (1,)

    def observe(self, last: I64, widths: Widths, outcome: Outcome) -> None:
        """See ``Policy.observe``. Rounds of rows that drafted nothing teach nothing."""
        drafted = outcome.proposed > 0
        if drafted.any():
            self._misses = 0 if outcome.accepted[drafted].any() else self._misses + 1
        for m, proposed, accepted in zip(
            last[drafted].tolist(), outcome.proposed[drafted].tolist(), outcome.accepted[drafted].tolist(), strict=True
        ):
            for offset in range(min(accepted + 1, proposed)):
                self._counts[0, m, offset, widths[offset]] += 1
                self._counts[1, m, offset, widths[offset]] += offset < accepted

    def _planned(self) -> list[Widths]:
        """The cheapest choice at every m; m counts the index of the last committed code."""
        chances = self._chances()
        cost = np.zeros(self._groups)
        plan: list[Widths] = [()] * self._groups
        for m in range(self._groups - 2, -1, -1):
            best = np.inf
            for widths, time in zip(self._choices, self._times, strict=True):
                if len(widths) > self._groups - 2 - m:
                    continue
                total, reached = time, 1.0
                for offset, width in enumerate(widths):
                    stands = chances[m, offset, width]
                    total += reached * (1 - stands) * cost[m + offset + 1]
                    reached *= stands
                total += reached * cost[m + len(widths) + 1]
                if total < best:
                    best, plan[m] = total, widths
            cost[m] = best
        return plan

    def _chances(self) -> np.ndarray:
        """Chance that a draft stands, float64 [G, offsets, width + 1]."""
        reached, accepted = self._counts
        miss = (1 - _PRIOR) * np.maximum(np.arange(reached.shape[2]), 1) ** -_WIDER
        whole = (accepted.sum(axis=0) + _PRIOR_WEIGHT * (1 - miss)) / (reached.sum(axis=0) + _PRIOR_WEIGHT)
        chances: np.ndarray = (accepted + _DEPTH_WEIGHT * whole) / (reached + _DEPTH_WEIGHT)
        return chances


def chains(max_window: int) -> list[Widths]:
    """Chains of every window up to a largest."""
    return [(1,) * drafts for drafts in range(1, max_window)]


def trees(max_window: int, max_rows: int) -> list[Widths]:
    """Trees worth a try that fit a pass: width 2 or 4 at the first depths, which are reached most, then narrower."""
    wide = [
        (first,) * deep + (1,) * rest
        for first in (2, 4)
        for deep in range(1, max_window)
        for rest in range(max_window - deep)
    ]
    return [widths for widths in [*wide, (4, 2)] if len(widths) < max_window and tree_rows(widths) <= max_rows]


def _time(widths: Widths, costs: PassCosts) -> float:
    rows = tree_rows(widths)
    return costs.of_pass(rows) + (len(widths) + rows) * costs.head_seconds
