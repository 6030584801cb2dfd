"""What a probe makes of rows: exact only if every bit is the same, and a tolerance beyond the largest difference."""

from __future__ import annotations

import numpy as np

from cpspec_trt.stages.row_probe import TOLERANCE_FACTOR, RowProbe, compare_rows

HEADS = np.eye(3, dtype=np.float32)[None] * np.array([1, 2, 4, 8], np.float32)[:, None, None]


def rows(*values: float) -> np.ndarray:
    """One sequence whose hidden rows hold a value each in their first place."""
    found = np.zeros((1, len(values), 3), np.float32)
    found[0, :, 0] = values
    return found


def test_equal_rows_are_exact_and_need_no_tolerance() -> None:
    probe = compare_rows([(rows(1, 2, 3), rows(1, 2))], 1, HEADS)
    assert probe == RowProbe(True, 0.0)
    assert probe.tolerance == 0


def test_a_difference_counts_as_much_as_the_head_of_its_position_makes_of_it() -> None:
    probe = compare_rows([(rows(1, 2), rows(1.5, 2)), (rows(1, 2), rows(1, 2.5))], 2, HEADS)
    assert probe == RowProbe(False, 0.5 * 8)
    assert probe.tolerance == TOLERANCE_FACTOR * 4


def test_one_bit_is_a_difference() -> None:
    probe = compare_rows([(rows(1, 2), rows(1, np.nextafter(np.float32(2), np.float32(3))))], 0, HEADS)
    assert not probe.exact
    assert 0 < probe.tolerance < 1e-5


def test_rows_in_a_short_type_are_compared_as_they_are() -> None:
    low, high = rows(1).astype(np.float16), rows(1 + 2**-10).astype(np.float16)
    assert compare_rows([(low, high)], 0, HEADS).difference == 2**-10


def test_without_wide_passes_there_is_nothing_to_differ() -> None:
    assert compare_rows([(rows(1, 2), rows())], 0, HEADS) == RowProbe(True, 0.0)
