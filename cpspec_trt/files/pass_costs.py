"""``pass_costs.json``: what a CodePredictor's passes take, measured once and kept beside its engine.

An adaptive window weighs what a pass may commit against what it takes. Under rejection and block the codes depend on
the windows that were used, so there the times come from this file alone: the same input then gives the same output.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path

from cpspec_trt.errors import EngineError
from cpspec_trt.files.json_io import read_json, write_json_atomic

PASS_COSTS_FILE = "pass_costs.json"
_REMEDY = "measure it again with cpspec-build --measureCosts"


@dataclass(frozen=True, slots=True)
class PassCosts:
    """Times of one CodePredictor on one machine.

    Attributes:
        rows: pass sizes that were measured, rising, the first is 1.
        seconds: time of a pass of each.
        head_seconds: time of one head over one row.
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    head_seconds: float

    def of_pass(self, rows: int) -> float:
        """Seconds of a pass; between two measured sizes on the line between them, beyond the largest in proportion."""
        at = bisect_left(self.rows, rows)
        if at == len(self.rows):
            return self.seconds[-1] * rows / self.rows[-1]
        if self.rows[at] == rows:
            return self.seconds[at]
        low, high = self.rows[at - 1], self.rows[at]
        share = (rows - low) / (high - low)
        return self.seconds[at - 1] * (1 - share) + self.seconds[at] * share

    def write(self, directory: Path) -> None:
        """Put the file beside an engine."""
        content = {"rows": list(self.rows), "seconds": list(self.seconds), "head_seconds": self.head_seconds}
        write_json_atomic(directory / PASS_COSTS_FILE, content)


def read_pass_costs(directory: Path) -> PassCosts | None:
    """The file beside an engine; None where there is none.

    Raises:
        EngineError: it is damaged.
    """
    path = directory / PASS_COSTS_FILE
    if not path.exists():
        return None
    content = read_json(path, EngineError, "pass costs")
    rows, seconds, head = content.get("rows"), content.get("seconds"), content.get("head_seconds", 0.0)
    if not isinstance(rows, list) or not all(map(_is_whole, rows)) or rows[:1] != [1] or sorted(set(rows)) != rows:
        raise EngineError(f"{path}: 'rows' must be rising whole numbers that begin with 1; {_REMEDY}")
    if not isinstance(seconds, list) or len(seconds) != len(rows) or not all(map(_is_time, [*seconds, head])):
        raise EngineError(f"{path}: 'seconds' and 'head_seconds' must be times above 0, one per entry; {_REMEDY}")
    return PassCosts(tuple(rows), tuple(seconds), float(head))


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
