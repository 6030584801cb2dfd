"""Speculation falls back as a whole, with a reason, never to something narrower."""

from __future__ import annotations

import pytest

from cpspec_trt.speculation.fallback import resolve_window


def test_off_is_off_and_needs_no_reason() -> None:
    status = resolve_window(0, groups=2, codebook=9999, max_rows=1, rebuild="make it")
    assert (status.requested, status.effective, status.reason) == (0, 0, None)


def test_a_window_that_fits_runs() -> None:
    status = resolve_window(8, groups=16, codebook=4096, max_rows=8, rebuild="make it")
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
    status = resolve_window(3, groups, codebook, max_rows, "make it")
    assert (status.requested, status.effective) == (3, 0)
    assert status.reason is not None
    assert reason in status.reason
