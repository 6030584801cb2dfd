"""The Talker's draw: penalty, suppression, EOS ban, filter, draw."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpspec_trt.kernels.faults import ALL_MASKED, NOT_FINITE, SOUND
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows, Kernels
from tests.kernels import definition


class Talker:
    """One row of Talker logits over six codes, of which 5 is the end of sequence."""

    def __init__(self, logits: list[float], filters: FilterParameters, rows: int = 1) -> None:
        self.logits = np.tile(np.array(logits, np.float32), (rows, 1))
        self.filters = FilterRows.pack([filters] * rows)
        self.seen = np.zeros((rows, len(logits)), np.uint8)
        self.penalty = np.ones(rows, np.float32)
        self.suppressed = np.zeros(len(logits), np.uint8)
        self.ban_eos = np.zeros(rows, np.uint8)
        self.seeds = np.arange(rows, dtype=np.uint64)
        self.frames = np.full(rows, 3, np.uint32)
        self.probabilities = np.empty((rows, len(logits)), np.float32)
        self.codes = np.full(rows, -7, np.int64)
        self.errors = np.empty(rows, np.int32)

    def draw(self, kernels: Kernels) -> None:
        kernels.draw_talker(
            self.logits,
            self.seen,
            self.penalty,
            self.suppressed,
            5,
            self.ban_eos,
            self.filters,
            self.seeds,
            self.frames,
            self.probabilities,
            self.codes,
            self.errors,
        )


ALL = FilterParameters(1.0, 0, 1.0)
NARROW = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
GREEDY = FilterParameters(1.0, 0, 1.0, do_sample=False)


def test_the_penalty_divides_positive_and_multiplies_negative_logits_of_seen_codes_once(kernels: Kernels) -> None:
    talker = Talker([2.0, -1.0, 2.0, -1.0, 0.0, 0.5], ALL)
    talker.seen[0, [0, 1, 4]] = 1
    talker.penalty[:] = 3.0
    talker.draw(kernels)
    want = np.exp([2.0 / 3, -3.0, 2.0, -1.0, 0.0, 0.5])
    np.testing.assert_allclose(talker.probabilities[0], want / want.sum(), rtol=1e-6)


def test_suppressed_codes_and_a_banned_end_are_never_drawn(kernels: Kernels) -> None:
    talker = Talker([9.0, 0.0, 8.0, 1.0, 0.0, 9.5], GREEDY, rows=2)
    talker.suppressed[[0, 2]] = 1
    talker.ban_eos[0] = 1
    talker.draw(kernels)
    assert talker.codes.tolist() == [3, 5]


def test_the_filter_sees_penalised_and_suppressed_logits(kernels: Kernels) -> None:
    talker = Talker([4.0, 3.0, 2.0, 1.0, 0.0, -1.0], FilterParameters(1.0, 2, 1.0))
    talker.suppressed[1] = 1
    talker.seen[0, 0] = 1
    talker.penalty[:] = 5.0
    talker.draw(kernels)
    assert np.flatnonzero(talker.probabilities[0]).tolist() == [2, 3]


def test_the_talker_draws_with_its_own_noise(kernels: Kernels) -> None:
    logits = [0.3, 0.1, 0.2, 0.0, -0.5, -0.1]
    talker = Talker(logits, ALL, rows=200)
    talker.draw(kernels)
    law, _ = definition.filtered(np.array(logits, np.float32), 1.0, 0, 1.0)
    want = [definition.drawn(law, seed, 3, definition.stream(definition.TALKER, 0)) for seed in range(200)]
    assert all(
        code == expected or lead < 1e-5 for code, (expected, lead) in zip(talker.codes.tolist(), want, strict=True)
    )
    assert len(set(talker.codes.tolist())) == 6


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_logits_are_taken_for_the_float32_numbers_they_are(kernels: Kernels, dtype: str) -> None:
    narrow, wide = (Talker([0.0] * 6, FilterParameters(0.7, 5, 0.9), rows=40) for _ in range(2))
    narrow.logits = np.random.default_rng(3).normal(0, 2, (40, 6)).astype(NARROW[dtype])
    wide.logits = narrow.logits.astype(np.float32)
    for talker in (narrow, wide):
        talker.seen[:, [1, 4]] = 1
        talker.penalty[:] = 1.3
        talker.draw(kernels)
    np.testing.assert_array_equal(narrow.probabilities, wide.probabilities)
    np.testing.assert_array_equal(narrow.codes, wide.codes)


def test_a_faulty_talker_row_is_flagged_gets_no_code_and_spares_the_others(kernels: Kernels) -> None:
    talker = Talker([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], GREEDY, rows=4)
    talker.logits[1, 2] = np.nan
    talker.logits[2] = -np.inf
    talker.draw(kernels)
    assert talker.errors.tolist() == [SOUND, NOT_FINITE, ALL_MASKED, SOUND]
    assert talker.codes.tolist() == [0, -1, -1, 0]


def test_suppressing_everything_that_is_left_is_a_fault(kernels: Kernels) -> None:
    talker = Talker([0.0] * 6, ALL)
    talker.suppressed[:5] = 1
    talker.ban_eos[:] = 1
    talker.draw(kernels)
    assert talker.errors.tolist() == [ALL_MASKED]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_a_talker_row_does_not_depend_on_the_others(kernels: Kernels, seed: int) -> None:
    random = np.random.default_rng(seed)

    def talker(rows: slice) -> Talker:
        made = Talker([0.0] * 6, FilterParameters(0.9, 4, 0.9), rows=5)
        for name, value in values.items():
            setattr(made, name, value[rows].copy())
        made.filters = FilterRows.pack([FilterParameters(0.9, 4, 0.9)] * len(made.logits))
        for name in ("codes", "errors", "probabilities"):
            setattr(made, name, getattr(made, name)[rows].copy())
        return made

    values: dict[str, np.ndarray] = {
        "logits": random.normal(size=(5, 6)).astype(np.float32),
        "seen": random.integers(0, 2, (5, 6)).astype(np.uint8),
        "penalty": random.uniform(1, 3, 5).astype(np.float32),
        "ban_eos": random.integers(0, 2, 5).astype(np.uint8),
        "seeds": random.integers(0, 2**64, 5, dtype=np.uint64),
        "frames": random.integers(0, 9, 5).astype(np.uint32),
    }
    together = talker(slice(None))
    together.draw(kernels)
    for row in range(5):
        alone = talker(slice(row, row + 1))
        alone.draw(kernels)
        assert alone.codes[0] == together.codes[row]
        np.testing.assert_array_equal(alone.probabilities[0], together.probabilities[row])
