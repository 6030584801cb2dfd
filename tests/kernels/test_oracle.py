"""Grouped heads, embedding sums and the Talker's draw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpspec_trt.kernels.faults import ALL_MASKED, NOT_FINITE, SOUND, RowNumericError, raise_first
from cpspec_trt.kernels.oracle import OracleKernels, aligned_empty
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from tests.kernels import definition


def _heads(hidden: np.ndarray, rows: list[int], head_rows: list[int], heads: np.ndarray) -> np.ndarray:
    logits = np.full((len(rows), heads.shape[1]), np.nan, np.float32)
    OracleKernels().grouped_heads(hidden, np.array(rows), np.array(head_rows), heads, logits)
    return logits


@pytest.mark.parametrize(("vocabulary", "width"), [(2048, 1024), (257, 96), (3, 5)])
def test_a_head_product_has_the_same_bits_however_many_others_are_computed(vocabulary: int, width: int) -> None:
    random = np.random.default_rng(width)
    heads = random.normal(size=(3, vocabulary, width)).astype(np.float32)
    hidden = random.normal(size=(6, width)).astype(np.float32)
    rows, head_rows = [0, 1, 5, 2, 2, 3, 4, 0], [0, 0, 2, 1, 2, 0, 1, 2]
    together = _heads(hidden, rows, head_rows, heads)
    for index, (row, head) in enumerate(zip(rows, head_rows, strict=True)):
        strided = np.repeat(hidden[row : row + 1], 2, axis=1)[:, ::2]
        np.testing.assert_array_equal(_heads(strided, [0], [head], heads)[0], together[index])


def test_grouped_heads_equal_float64_within_rounding() -> None:
    random = np.random.default_rng(0)
    heads = random.normal(size=(4, 300, 256)).astype(np.float32) / 16
    hidden = random.normal(size=(5, 256)).astype(np.float32)
    rows, head_rows = [4, 0, 3, 3], [1, 0, 3, 2]
    want = np.einsum("rvh,rh->rv", heads[head_rows].astype(float), hidden[rows].astype(float))
    np.testing.assert_allclose(_heads(hidden, rows, head_rows, heads), want, atol=1e-5)


def test_one_kernels_object_serves_models_of_different_sizes() -> None:
    kernels = OracleKernels()
    for vocabulary, width in ((5, 3), (3, 5), (5, 3)):
        heads = np.arange(vocabulary * width, dtype=np.float32).reshape(1, vocabulary, width)
        logits = np.empty((1, vocabulary), np.float32)
        kernels.grouped_heads(np.ones((1, width), np.float32), np.zeros(1, int), np.zeros(1, int), heads, logits)
        np.testing.assert_array_equal(logits[0], heads[0].sum(axis=1))


def test_aligned_buffers_start_on_a_cache_line() -> None:
    for length in (1, 7, 1024):
        buffer = aligned_empty(length)
        assert buffer.shape == (length,)
        assert buffer.ctypes.data % 64 == 0


def test_the_feedback_is_the_sum_of_one_row_per_table_in_depth_order() -> None:
    random = np.random.default_rng(1)
    tables = [random.normal(size=(rows, 8)).astype(np.float32) for rows in (20, 9, 9, 9)]
    codes = np.array([[19, 0, 8, 3], [2, 2, 2, 2]])
    feedback = np.full((2, 8), np.nan, np.float32)
    OracleKernels().sum_codec_embeddings(tables, codes, feedback)
    for row in range(2):
        want = np.zeros(8, np.float32)
        for table, code in zip(tables, codes[row], strict=True):
            want = want + table[code]
        np.testing.assert_array_equal(feedback[row], want)


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

    def draw(self) -> None:
        OracleKernels().draw_talker(
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
GREEDY = FilterParameters(1.0, 0, 1.0, do_sample=False)


def test_the_penalty_divides_positive_and_multiplies_negative_logits_of_seen_codes_once() -> None:
    talker = Talker([2.0, -1.0, 2.0, -1.0, 0.0, 0.5], ALL)
    talker.seen[0, [0, 1, 4]] = 1
    talker.penalty[:] = 3.0
    talker.draw()
    want = np.exp([2.0 / 3, -3.0, 2.0, -1.0, 0.0, 0.5])
    np.testing.assert_allclose(talker.probabilities[0], want / want.sum(), rtol=1e-6)


def test_suppressed_codes_and_a_banned_end_are_never_drawn() -> None:
    talker = Talker([9.0, 0.0, 8.0, 1.0, 0.0, 9.5], GREEDY, rows=2)
    talker.suppressed[[0, 2]] = 1
    talker.ban_eos[0] = 1
    talker.draw()
    assert talker.codes.tolist() == [3, 5]


def test_the_filter_sees_penalised_and_suppressed_logits() -> None:
    talker = Talker([4.0, 3.0, 2.0, 1.0, 0.0, -1.0], FilterParameters(1.0, 2, 1.0))
    talker.suppressed[1] = 1
    talker.seen[0, 0] = 1
    talker.penalty[:] = 5.0
    talker.draw()
    assert np.flatnonzero(talker.probabilities[0]).tolist() == [2, 3]


def test_the_talker_draws_with_its_own_noise() -> None:
    logits = [0.3, 0.1, 0.2, 0.0, -0.5, -0.1]
    talker = Talker(logits, ALL, rows=200)
    talker.draw()
    law, _ = definition.filtered(np.array(logits, np.float32), 1.0, 0, 1.0)
    want = [definition.drawn(law, seed, 3, definition.stream(definition.TALKER, 0)) for seed in range(200)]
    assert all(
        code == expected or lead < 1e-5 for code, (expected, lead) in zip(talker.codes.tolist(), want, strict=True)
    )
    assert len(set(talker.codes.tolist())) == 6


def test_a_faulty_talker_row_is_flagged_gets_no_code_and_spares_the_others() -> None:
    talker = Talker([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], GREEDY, rows=4)
    talker.logits[1, 2] = np.nan
    talker.logits[2] = -np.inf
    talker.draw()
    assert talker.errors.tolist() == [SOUND, NOT_FINITE, ALL_MASKED, SOUND]
    assert talker.codes.tolist() == [0, -1, -1, 0]


def test_suppressing_everything_that_is_left_is_a_fault() -> None:
    talker = Talker([0.0] * 6, ALL)
    talker.suppressed[:5] = 1
    talker.ban_eos[:] = 1
    talker.draw()
    assert talker.errors.tolist() == [ALL_MASKED]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_a_talker_row_does_not_depend_on_the_others(seed: int) -> None:
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
    together.draw()
    for row in range(5):
        alone = talker(slice(row, row + 1))
        alone.draw()
        assert alone.codes[0] == together.codes[row]
        np.testing.assert_array_equal(alone.probabilities[0], together.probabilities[row])


def test_a_fault_names_row_frame_and_depth_and_later_the_request() -> None:
    with pytest.raises(RowNumericError) as caught:
        raise_first(
            np.array([0, NOT_FINITE, ALL_MASKED]), np.array([0, 4, 5]), np.array([1, 17, 18]), np.array([1, 9, 2])
        )
    error = caught.value
    assert (error.row, error.frame, error.depth, error.flag) == (4, 17, 9, NOT_FINITE)
    assert str(error).startswith("batch row 4, frame 17, RVQ depth 9: the logits hold NaN or +inf; ")
    assert str(error.of_request("request 2")).startswith("request 2, frame 17, RVQ depth 9: the logits hold NaN")
    raise_first(np.zeros(3, np.int32), np.arange(3), np.arange(3), np.arange(3))
