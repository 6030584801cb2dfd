"""What rounds did, by depth: a policy that chooses like another and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from cpspec_trt.kernels.protocol import I64
from cpspec_trt.speculation.policy import Policy, Widths
from cpspec_trt.speculation.round import Outcome


class CountingPolicy:
    """A ``Policy``.

    Attributes:
        rounds: how often what was drafted, cut where a frame's end cut it.
        reached: int64 [G, offsets], drafts whose predecessors in the round all stood, by depth and draft offset.
        accepted: int64 [G, offsets], those of them that stood.
    """

    def __init__(self, policy: Policy, groups: int) -> None:
        """Count what ``policy`` chooses for frames of ``groups`` codes."""
        self._policy = policy
        deepest = max((len(widths) for widths in policy.largest), default=0)
        self.rounds: Counter[Widths] = Counter()
        self.reached, self.accepted = np.zeros((2, groups, deepest), np.int64)

    def clear(self) -> None:
        """Count from zero again."""
        self.rounds.clear()
        self.reached.fill(0)
        self.accepted.fill(0)

    @property
    def largest(self) -> Sequence[Widths]:
        """See ``Policy``."""
        return self._policy.largest

    @property
    def probes(self) -> int:
        """See ``Policy``."""
        return self._policy.probes

    def reset(self) -> None:
        """See ``Policy.reset``."""
        self._policy.reset()

    def choose(self, last: I64) -> Widths:
        """See ``Policy.choose``."""
        return self._policy.choose(last)

    def observe(self, last: I64, widths: Widths, outcome: Outcome) -> None:
        """See ``Policy.observe``."""
        self._policy.observe(last, widths, outcome)
        for m, proposed, accepted in zip(
            last.tolist(), outcome.proposed.tolist(), outcome.accepted.tolist(), strict=True
        ):
            self.rounds[widths[:proposed]] += 1
            reached = np.arange(min(accepted + 1, proposed))
            self.reached[m + 1 + reached, reached] += 1
            self.accepted[m + 1 + np.arange(accepted), np.arange(accepted)] += 1
