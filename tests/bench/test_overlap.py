"""Overlap and entropy against worked examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpspec_trt.bench.overlap import entropy_bits, marginal_overlap, overlap


def test_the_worked_example_of_rejection_sampling_overlaps_by_nine_tenths() -> None:
    assert overlap(np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2])) == pytest.approx(0.9)


def test_equal_laws_overlap_wholly_and_disjoint_ones_not_at_all() -> None:
    p = np.array([[0.25, 0.75, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    assert overlap(p, p) == pytest.approx([1, 1])
    assert overlap(p, p[::-1]) == pytest.approx([0, 0])


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=2, max_size=20))
def test_it_is_one_minus_the_total_variation_distance(weights: list[tuple[float, float]]) -> None:
    p, q = (np.array(column) / sum(column) for column in zip(*weights, strict=True))
    assert overlap(p, q) == pytest.approx(1 - 0.5 * np.abs(p - q).sum())


def test_entropy_of_a_uniform_law_is_its_logarithm_and_of_a_sure_one_zero() -> None:
    laws = np.array([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0], [1, 0, 0, 0]])
    assert entropy_bits(laws) == pytest.approx([2, 1, 0])


def test_entropy_of_a_biased_coin() -> None:
    p = 0.1
    expected = -p * math.log2(p) - (1 - p) * math.log2(1 - p)
    assert entropy_bits(np.array([p, 1 - p])) == pytest.approx(expected)


def test_the_marginal_of_a_frame_leaves_that_frame_out() -> None:
    """Sure laws of three frames, two alike: the third meets nothing, each of the others half of its marginal."""
    assert marginal_overlap(np.array([[1.0, 0], [1, 0], [0, 1]])) == pytest.approx((0.5 + 0.5 + 0) / 3)


def test_one_frame_has_no_other_frames() -> None:
    assert math.isnan(marginal_overlap(np.array([[1.0, 0]])))
