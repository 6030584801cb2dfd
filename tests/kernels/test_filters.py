"""The filter against a float64 evaluation written separately, over grids and edge cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpspec_trt.kernels.faults import ALL_MASKED, NOT_FINITE, SOUND
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows, Kernels
from tests.kernels import definition

NEAR_BORDER = 1e-6


def _filter(kernels: Kernels, logits: np.ndarray, parameters: list[FilterParameters]) -> tuple[np.ndarray, np.ndarray]:
    probabilities = np.full(logits.shape, np.nan, np.float32)
    errors = np.full(len(logits), 99, np.int32)
    kernels.filter(logits, FilterRows.pack(parameters), probabilities, errors)
    return probabilities, errors


def _one(
    kernels: Kernels, logits: list[float], temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> np.ndarray:
    probabilities, errors = _filter(
        kernels, np.array([logits], np.float32), [FilterParameters(temperature, top_k, top_p)]
    )
    assert errors.tolist() == [SOUND]
    row: np.ndarray = probabilities[0]
    return row


def _rows(vocabulary: int) -> np.ndarray:
    """Random, peaked, flat, tied and masked rows."""
    random = np.random.default_rng(vocabulary)
    masked = np.where(random.random(vocabulary) < 0.7, -np.inf, random.normal(size=vocabulary))
    masked[vocabulary // 2] = 0.5
    rows = [
        random.normal(size=vocabulary),
        3 * random.normal(size=vocabulary),
        12 * random.normal(size=vocabulary),
        np.zeros(vocabulary),
        random.integers(-2, 3, vocabulary),
        masked,
    ]
    return np.array(rows, np.float32)


@pytest.mark.parametrize("vocabulary", [8, 97, 1024, 2048])
def test_probabilities_and_support_equal_the_float64_evaluation(kernels: Kernels, vocabulary: int) -> None:
    rows = _rows(vocabulary)
    near_border = compared = 0
    for temperature, top_k, top_p in itertools.product(
        (0.2, 1.0, 3.0), (0, 1, 50, vocabulary, vocabulary + 5), (1.0, 0.8, 0.05)
    ):
        parameters = [FilterParameters(temperature, top_k, top_p)] * len(rows)
        got, errors = _filter(kernels, rows, parameters)
        assert not errors.any()
        for row, probabilities in zip(rows, got, strict=True):
            want, nearest = definition.filtered(row, temperature, top_k, top_p)
            compared += 1
            if nearest < NEAR_BORDER:
                near_border += 1
                continue
            # between 0 and 1e-37 float32 may underflow where float64 still has a trace of mass
            assert (probabilities[want > 1e-37] > 0).all()
            assert not probabilities[want == 0].any()
            np.testing.assert_allclose(probabilities, want, rtol=1e-5, atol=1e-6)
            assert abs(float(probabilities.sum(dtype=np.float64)) - 1) < 1e-5
    assert near_border <= 0.03 * compared  # fifty equal candidates reach .8 exactly after forty


def test_the_crossing_token_is_kept_whole(kernels: Kernels) -> None:
    got = _one(kernels, np.log([0.5, 0.3, 0.15, 0.05]).tolist(), top_p=0.7)
    np.testing.assert_allclose(got, [0.625, 0.375, 0, 0], atol=1e-6)


def test_a_prefix_that_reaches_top_p_exactly_is_enough(kernels: Kernels) -> None:
    np.testing.assert_array_equal(_one(kernels, [0.0, 0.0, 0.0, 0.0], top_p=0.5), [0.5, 0.5, 0, 0])


def test_top_p_is_taken_of_the_mass_that_top_k_left(kernels: Kernels) -> None:
    got = _one(kernels, np.log([0.4, 0.3, 0.2, 0.1]).tolist(), top_k=2, top_p=0.5)
    np.testing.assert_allclose(got, [1, 0, 0, 0], atol=1e-6)


def test_temperature_comes_before_top_p(kernels: Kernels) -> None:
    logits = np.log([0.5, 0.3, 0.2]).tolist()
    assert (_one(kernels, logits, top_p=0.45) > 0).tolist() == [True, False, False]
    assert (_one(kernels, logits, temperature=3.0, top_p=0.45) > 0).tolist() == [True, True, False]


def test_exactly_top_k_survive_and_ties_go_to_the_lower_index(kernels: Kernels) -> None:
    np.testing.assert_array_equal(
        _one(kernels, [1.0, 2.0, 1.0, 1.0, 2.0], top_k=3) > 0, [True, True, False, False, True]
    )
    np.testing.assert_array_equal(_one(kernels, [0.0] * 6, top_k=2), [0.5, 0.5, 0, 0, 0, 0])


def test_top_p_breaks_ties_to_the_lower_index(kernels: Kernels) -> None:
    np.testing.assert_array_equal(_one(kernels, [0.0, 1.0, 1.0, 1.0], top_p=0.25) > 0, [False, True, False, False])


def test_a_top_k_beyond_the_vocabulary_keeps_everything(kernels: Kernels) -> None:
    np.testing.assert_array_equal(_one(kernels, [0.0, 1.0, 2.0], top_k=9), _one(kernels, [0.0, 1.0, 2.0]))


@pytest.mark.parametrize(
    "parameters",
    [FilterParameters(0.0, 0, 1.0), FilterParameters(9.9e-4, 5, 0.5), FilterParameters(1.0, 50, 0.8, do_sample=False)],
    ids=["zero temperature", "tiny temperature", "no sampling"],
)
def test_a_greedy_row_is_one_hot_at_the_lowest_maximum(kernels: Kernels, parameters: FilterParameters) -> None:
    got, _ = _filter(kernels, np.array([[0, 3, 3, -np.inf]], np.float32), [parameters])
    np.testing.assert_array_equal(got, [[0, 1, 0, 0]])


def test_minus_infinity_is_a_mask_even_where_fewer_than_top_k_remain(kernels: Kernels) -> None:
    np.testing.assert_allclose(_one(kernels, [-np.inf, 0.0, -np.inf, 0.0], top_k=3, top_p=0.99), [0, 0.5, 0, 0.5])


def test_faulty_rows_are_flagged_and_leave_their_neighbours_alone(kernels: Kernels) -> None:
    sound = [0.5, -1.0, 2.0]
    rows = np.array(
        [sound, [0, np.nan, 1], [np.inf, 0, 0], [-np.inf] * 3, [np.nan, np.inf, -np.inf], sound], np.float32
    )
    for parameters in (FilterParameters(0.9, 2, 0.9), FilterParameters(1.0, 0, 1.0, do_sample=False)):
        got, errors = _filter(kernels, rows, [parameters] * len(rows))
        assert errors.tolist() == [SOUND, NOT_FINITE, NOT_FINITE, ALL_MASKED, NOT_FINITE, SOUND]
        assert not got[1:5].any()
        np.testing.assert_array_equal(got[[0, 5]], _filter(kernels, rows[[0, 5]], [parameters] * 2)[0])
        codes = np.empty(len(rows), np.int64)
        kernels.argmax(rows, codes, errors)
        assert errors.tolist() == [SOUND, NOT_FINITE, NOT_FINITE, ALL_MASKED, NOT_FINITE, SOUND]


def test_a_logit_that_overflows_when_divided_is_flagged(kernels: Kernels) -> None:
    _, errors = _filter(kernels, np.array([[3e38, 0.0]], np.float32), [FilterParameters(0.01, 0, 1.0)])
    assert errors.tolist() == [NOT_FINITE]


@given(
    st.integers(0, 2**32 - 1),
    st.lists(
        st.tuples(st.floats(0, 4), st.integers(0, 40), st.floats(0.01, 1.2), st.booleans()), min_size=2, max_size=7
    ),
)
def test_a_row_gets_the_same_bits_alone_and_among_rows_with_other_parameters(
    kernels: Kernels, seed: int, settings: list[tuple[float, int, float, bool]]
) -> None:
    parameters = [FilterParameters(*each) for each in settings]
    logits = np.random.default_rng(seed).normal(0, 3, (len(parameters), 33)).astype(np.float32)
    together, _ = _filter(kernels, logits, parameters)
    for row, own in enumerate(parameters):
        alone, _ = _filter(kernels, logits[row : row + 1], [own])
        np.testing.assert_array_equal(alone[0], together[row])


@pytest.mark.parametrize("top_p", [1.0, 0.8])
@pytest.mark.parametrize("top_k", [0, 50])
def test_a_wide_row_gets_the_same_bits_alone_and_in_a_batch(kernels: Kernels, top_k: int, top_p: float) -> None:
    parameters = FilterParameters(0.9, top_k, top_p)
    logits = np.random.default_rng(5).normal(0, 2, (19, 3001)).astype(np.float32)
    together, _ = _filter(kernels, logits, [parameters] * 19)
    for row in range(19):
        np.testing.assert_array_equal(_filter(kernels, logits[row : row + 1], [parameters])[0][0], together[row])
