"""Median and quartiles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpspec_trt.bench.spread import Spread


def test_quartiles_of_five_values_are_the_second_the_third_and_the_fourth() -> None:
    assert Spread.of([50, 10, 40, 20, 30]) == Spread(20, 30, 40, 5)


def test_quartiles_between_two_values_are_interpolated() -> None:
    assert Spread.of([1.0, 2.0]) == Spread(1.25, 1.5, 1.75, 2)


def test_a_single_value_is_its_own_spread_and_units_are_multiplied() -> None:
    assert Spread.of([0.25], 1000) == Spread(250, 250, 250, 1)


@given(st.lists(st.floats(0.001, 1000), min_size=2, max_size=30))
def test_quartiles_are_those_of_numpy(values: list[float]) -> None:
    found = Spread.of(values)
    assert [found.low, found.median, found.high] == pytest.approx(np.quantile(values, [0.25, 0.5, 0.75]))
