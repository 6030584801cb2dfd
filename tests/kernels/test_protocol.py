"""Filter parameters at the edge, and the layout of ragged batches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows, ragged_slots


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        (FilterParameters(-0.1, 50, 1.0), "temperature"),
        (FilterParameters(math.nan, 50, 1.0), "temperature"),
        (FilterParameters(math.inf, 50, 1.0), "temperature"),
        (FilterParameters(True, 50, 1.0), "temperature"),
        (FilterParameters(0.9, -1, 1.0), "top_k"),
        (FilterParameters(0.9, 2.5, 1.0), "top_k"),  # type: ignore[arg-type]
        (FilterParameters(0.9, True, 1.0), "top_k"),
        (FilterParameters(0.9, 50, 0.0), "top_p"),
        (FilterParameters(0.9, 50, -0.5), "top_p"),
        (FilterParameters(0.9, 50, math.nan), "top_p"),
        (FilterParameters(0.9, 50, math.inf), "top_p"),
        (FilterParameters(0.9, 50, "1"), "top_p"),  # type: ignore[arg-type]
    ],
)
def test_a_parameter_that_cannot_work_is_refused_by_name_and_value(parameters: FilterParameters, field: str) -> None:
    with pytest.raises(UsageError, match=rf"^subtalker_{field} must be .* not {getattr(parameters, field)!r}$"):
        parameters.validated("subtalker_")


@pytest.mark.parametrize(
    "parameters",
    [FilterParameters(0.0, 0, 1.0), FilterParameters(1, 0, 1), FilterParameters(0.9, 10**9, 3.0)],
)
def test_the_borders_of_the_legal_range_pass_unchanged(parameters: FilterParameters) -> None:
    assert parameters.validated() is parameters


@pytest.mark.parametrize(
    ("temperature", "do_sample", "greedy"),
    [(0.0, True, True), (9.99e-4, True, True), (1e-3, True, False), (0.9, True, False), (0.9, False, True)],
)
def test_a_row_is_greedy_below_a_temperature_of_a_thousandth_or_without_sampling(
    temperature: float, do_sample: bool, greedy: bool
) -> None:
    parameters = FilterParameters(temperature, 50, 0.8, do_sample)
    assert parameters.greedy is greedy
    assert (FilterRows.pack([parameters]).temperature[0] == 0) is np.bool_(greedy)


def test_a_huge_top_k_fits_the_packed_array() -> None:
    assert FilterRows.pack([FilterParameters(1.0, 2**40, 1.0)]).top_k[0] == 2**31 - 1


def test_ragged_slots_follow_one_another_and_empty_sequences_take_none() -> None:
    owner, offset = ragged_slots(np.array([2, 0, 3, 1]))
    assert owner.tolist() == [0, 0, 2, 2, 2, 3]
    assert offset.tolist() == [0, 1, 0, 1, 2, 0]
    assert all(len(part) == 0 for part in ragged_slots(np.zeros(4, np.int64)))
