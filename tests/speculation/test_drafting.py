"""Wishes for speculation are checked before anything is opened."""

from __future__ import annotations

import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.speculation.drafting import OFF, Drafting


@pytest.mark.parametrize(
    ("arguments", "window", "rule", "widths", "rows"),
    [
        ((3,), 3, "rejection", (1, 1), 3),
        ((0, "coupled"), 0, "coupled", (), 1),
        ((4, "block"), 4, "block", (1, 1, 1), 4),
        ((6, "coupled", 2), 6, "coupled", (2,) * 5, 63),
        ((3, "coupled", 4), 3, "coupled", (4, 4), 21),
        ((3, "coupled", (4, 2)), 3, "coupled", (4, 2), 13),
        ((3, "rejection", (1, 1)), 3, "rejection", (1, 1), 3),
    ],
)
def test_what_can_work_is_laid_out(
    arguments: tuple[object, ...], window: int, rule: str, widths: tuple[int, ...], rows: int
) -> None:
    found = Drafting.checked(*arguments)
    assert (found.window, found.rule.name, found.widths, found.rows) == (window, rule, widths, rows)
    assert found.tree == (widths if max(widths, default=1) > 1 else None)
    assert not found.adaptive


def test_off_is_what_no_wish_gives() -> None:
    assert Drafting.checked(0) == OFF


def test_auto_chooses_among_all_windows_under_every_rule() -> None:
    for rule in ("rejection", "block", "coupled"):
        found = Drafting.checked("auto", rule)
        assert (found.window, found.rule.name, found.adaptive) == (8, rule, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), "the verify window is 1: 1 leaves no draft slot"),
        ((9,), "the range is 2 to 8"),
        (("often",), "give a whole number or auto"),
        ((True,), "the verify window is True"),
        ((3, "greedy"), "the acceptance rule is 'greedy'; use rejection, block, coupled"),
        ((3, None), "the acceptance rule is None"),
        ((3, "coupled", 0), "the tree width is 0"),
        ((3, "coupled", "2"), "the tree width is '2'"),
        ((3, "coupled", (2, True)), r"the tree width is \(2, True\)"),
        ((3, "coupled", (2, 2, 2)), "3 entries for the 2 drafted depths of a verify window of 3"),
        ((0, "coupled", 2), "needs a verify window of 2 to 8, which was not given"),
        ((3, "block", 2), "needs the rule coupled, not block"),
        ((7, "coupled", 2), "of widths 2,2,2,2,2,2 has 127 rows, a verify pass at most 64; use 2 with windows up to 6"),
        ((4, "coupled", 4), "has 85 rows"),
        (("auto", "coupled", 2), "a tree width needs a fixed verify window"),
    ],
)
def test_what_cannot_work_is_said(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Drafting.checked(*arguments)
