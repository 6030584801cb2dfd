"""How much the next round drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cpspec_trt.kernels.protocol import I64
from cpspec_trt.speculation.round import Outcome

Widths = tuple[int, ...]  # children per node by drafted depth: () is a plain step, (1, 1) a chain of two drafts


class Policy(Protocol):
    """Chooses the drafts of each round of a batch.

    Attributes:
        largest: everything it may choose, by which buffers are bound.
        probes: rounds so far that drafted only to see whether it pays again.
    """

    @property
    def largest(self) -> Sequence[Widths]: ...

    @property
    def probes(self) -> int: ...

    def reset(self) -> None:
        """Begin a request."""

    def choose(self, last: I64) -> Widths:
        """The drafts of the next round.

        Args:
            last: int64 [A], index of the last committed code of each unfinished row.
        """

    def observe(self, last: I64, widths: Widths, outcome: Outcome) -> None:
        """Learn from a round: where the rows stood (int64 [A]), what was chosen, what came out."""


class FixedPolicy:
    """The same drafts in every round."""

    def __init__(self, widths: Widths) -> None:
        """``widths``: as ``Widths``."""
        self._widths = widths

    @property
    def largest(self) -> Sequence[Widths]:
        """See ``Policy``."""
        return (self._widths,)

    @property
    def probes(self) -> int:
        """See ``Policy``."""
        return 0

    def reset(self) -> None:
        """See ``Policy.reset``."""

    def choose(self, last: I64) -> Widths:
        """See ``Policy.choose``."""
        return self._widths

    def observe(self, last: I64, widths: Widths, outcome: Outcome) -> None:
        """See ``Policy.observe``."""


def is_chain(widths: Widths) -> bool:
    """Whether no node has two children."""
    return max(widths, default=1) == 1
