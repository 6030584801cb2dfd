"""Median and quartiles of what was measured several times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Where the middle half of some values lies.

    Attributes:
        low: first quartile, interpolated between neighbours (``statistics.quantiles``, inclusive).
        median: the middle.
        high: third quartile.
        count: how many values.
    """

    low: float
    median: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float], scale: float = 1.0) -> Spread:
        """Of values, each multiplied by ``scale``. At least one is needed."""
        if len(values) == 1:
            only = scale * values[0]
            return cls(only, only, only, 1)
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(scale * low, scale * median, scale * high, len(values))

    def to_json(self) -> dict[str, float | int]:
        """For the result file."""
        return {"q1": self.low, "median": self.median, "q3": self.high, "count": self.count}
