"""Speculation falls back as a whole, with a reason, never to something narrower."""

from __future__ import annotations

import pytest

from cpspec_trt.errors import EngineError
from cpspec_trt.speculation.drafting import Drafting
from cpspec_trt.speculation.fallback import resolve


def test_off_is_off_and_needs_no_reason() -> None:
    status = resolve(Drafting.checked(0), groups=2, codebook=9999, max_rows=1, rebuild="make it")
    assert (status.requested, status.effective, status.reason) == (0, 0, None)


def test_a_window_that_fits_runs() -> None:
    status = resolve(Drafting.checked(8), groups=16, codebook=4096, max_rows=8, rebuild="make it")
    assert (status.effective, status.reason) == (8, None)


@pytest.mark.parametrize(
    ("groups", "codebook", "max_rows", "reason"),
    [
        (16, 4097, 8, "the codebook has 4097 codes, the kernels take at most 4096"),
        (16, 2048, 2, "accepts 2 new positions, the verify window is 3; rebuild it with make it"),
        (2, 2048, 8, "a frame has 1 RVQ depth to predict, which leaves nothing to draft"),
    ],
)
def test_each_limit_gives_its_reason(groups: int, codebook: int, max_rows: int, reason: str) -> None:
    status = resolve(Drafting.checked(3), groups, codebook, max_rows, "make it")
    assert (status.requested, status.effective) == (3, 0)
    assert status.reason is not None
    assert reason in status.reason


def test_a_tree_that_does_not_fit_is_refused_saying_what_to_build() -> None:
    drafting = Drafting.checked(4, "coupled", 2)
    with pytest.raises(
        EngineError, match=r"widths 2,2,2 has 15 rows.*accepts 8 new positions; rebuild it with make it"
    ):
        resolve(drafting, groups=16, codebook=2048, max_rows=8, rebuild="make it")
    with pytest.raises(EngineError, match=r"has 15 rows.*accepts 3 new positions"):  # not even the window fits
        resolve(drafting, groups=16, codebook=2048, max_rows=3, rebuild="make it")
    status = resolve(drafting, groups=16, codebook=2048, max_rows=15, rebuild="make it")
    assert (status.effective, status.widths, status.adaptive) == (4, (2, 2, 2), False)


def test_an_adaptive_window_runs_where_the_largest_does() -> None:
    status = resolve(Drafting.checked("auto"), groups=16, codebook=2048, max_rows=8, rebuild="make it")
    assert (status.requested, status.effective, status.adaptive) == (8, 8, True)
    assert resolve(Drafting.checked("auto"), 16, 2048, 7, "make it").effective == 0
