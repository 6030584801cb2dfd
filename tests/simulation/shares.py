"""Which golden cases run under which windows in every run, and which only in the long one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import pytest

WINDOWS = (0, 2, 3, 4, 5, 6, 7, 8)


class Named(Protocol):
    """A golden case."""

    @property
    def name(self) -> str:
        """Of the case."""


def shared_out(cases: Sequence[Named], long: Collection[str] = ()) -> list[Any]:
    """Parameters (case, window): in every run each case has one window, and all windows come up.

    Args:
        cases: the goldens.
        long: names of those that only the long run has.
    """
    everyday = [case for case in cases if case.name not in long]
    chosen = {case.name: WINDOWS[number % len(WINDOWS)] for number, case in enumerate(everyday)}
    return [
        pytest.param(
            case,
            window,
            id=f"{case.name}-{window}",
            marks=() if chosen.get(case.name) == window else pytest.mark.long,
        )
        for case in cases
        for window in WINDOWS
    ]
