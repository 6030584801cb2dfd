"""The draw over any vocabulary, and the bound of the operations that have one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cpspec_trt.errors import UnsupportedError
from cpspec_trt.kernels.faults import ALL_MASKED, NOT_FINITE, SOUND
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows, Kernels
from tests.kernels.grid import FLOATS, NEAR_BORDER, Point, distance_to_border

THINKER = 152_064


class Words:
    """Rows over the Thinker's vocabulary."""

    def __init__(self, logits: np.ndarray, filters: FilterRows) -> None:
        rows = len(logits)
        self.logits = logits
        self.filters = filters
        self.seeds = np.arange(rows, dtype=np.uint64) + 2**40
        self.frames = np.arange(rows, dtype=np.uint32)
        self.streams = stream(Purpose.THINKER, np.zeros(rows, np.int64))
        self.probabilities = np.full(logits.shape, np.nan, np.float32)
        self.codes, self.errors = np.full(rows, -7), np.full(rows, 99, np.int32)

    def sample(self, kernels: Kernels, dense: bool = True) -> None:
        kernels.sample(
            self.logits,
            self.filters,
            self.seeds,
            self.streams,
            self.frames,
            self.probabilities if dense else None,
            self.codes,
            self.errors,
        )


@pytest.mark.parametrize(
    ("top_k", "top_p", "dtype"),
    [(0, 1.0, "float32"), (20, 0.8, "float16"), (0, 0.9, "float32"), (0, 0.9, "bfloat16"), (2000, 0.95, "float32")],
)
def test_a_draw_over_the_thinkers_vocabulary_equals_the_oracle(
    native: NativeKernels, top_k: int, top_p: float, dtype: str
) -> None:
    logits = (3 * np.random.default_rng(top_k).normal(size=(2, THINKER))).astype(FLOATS[dtype])
    logits[1] = np.round(logits[1].astype(np.float32)).astype(FLOATS[dtype])
    filters = FilterRows.pack([FilterParameters(0.7, top_k, top_p)] * 2)
    got, want = Words(logits, filters), Words(logits, filters)
    got.sample(native)
    want.sample(OracleKernels())
    assert not got.errors.any()
    border = distance_to_border(logits, Point(THINKER, 2, top_k, top_p, 0.7, dtype)) < NEAR_BORDER
    assert not border[0]
    np.testing.assert_allclose(got.probabilities[~border], want.probabilities[~border], rtol=0, atol=1e-6)
    other_support = (got.probabilities > 0) != (want.probabilities > 0)
    assert not other_support[~border].any()
    np.testing.assert_array_equal(got.codes[~border], want.codes[~border])


def test_the_probabilities_can_be_left_out(kernels: Kernels) -> None:
    logits = np.random.default_rng(0).normal(size=(3, 6000)).astype(np.float32)
    filters = FilterRows.pack([FilterParameters(0.9, 40, 0.9), FilterParameters(0, 0, 1), FilterParameters(1, 0, 1)])
    dense, sparse = Words(logits, filters), Words(logits, filters)
    dense.sample(kernels)
    sparse.sample(kernels, dense=False)
    np.testing.assert_array_equal(sparse.codes, dense.codes)
    assert dense.codes[1] == logits[1].argmax()


def test_faulty_rows_get_no_word_and_spare_the_others(kernels: Kernels) -> None:
    logits = np.random.default_rng(1).normal(size=(4, 5000)).astype(np.float32)
    alone = Words(logits.copy(), FilterRows.pack([FilterParameters(0.9, 50, 0.8)] * 4))
    alone.sample(kernels)
    logits[1, 4999] = np.inf
    logits[2] = -np.inf
    words = Words(logits, FilterRows.pack([FilterParameters(0.9, 50, 0.8)] * 4))
    words.sample(kernels)
    assert words.errors.tolist() == [SOUND, NOT_FINITE, ALL_MASKED, SOUND]
    assert words.codes.tolist() == [alone.codes[0], -1, -1, alone.codes[3]]
    assert not words.probabilities[1:3].any()


@pytest.mark.parametrize("vocabulary", [1, 4096, 5000, 70_001])
def test_argmax_takes_any_vocabulary(kernels: Kernels, vocabulary: int) -> None:
    logits = np.random.default_rng(vocabulary).integers(-3, 4, (3, vocabulary)).astype(np.float32)
    logits[2] = np.where(np.arange(vocabulary) % 2, 0.0, -0.0)  # both zeros tie
    codes, errors = np.full(3, -7), np.full(3, 99, np.int32)
    kernels.argmax(logits, codes, errors)
    np.testing.assert_array_equal(codes, logits.argmax(axis=1))
    assert not errors.any()


WIDE = 4097
ONE = np.zeros(1, np.int64)
SEED, WORD = np.zeros(1, np.uint64), np.zeros(1, np.uint32)
ROW, OUT = np.zeros((2, WIDE), np.float32), np.zeros((1, WIDE), np.float32)
BYTES, FLAG = np.zeros((1, WIDE), np.uint8), np.zeros(1, np.int32)
HEADS = np.zeros((1, WIDE, 2), np.float32), np.zeros((1, 2), np.float32)
# hidden, first_hidden, codes, last, context
COMMITTED = np.zeros((2, 4), np.float32), ONE, np.zeros((1, 8), np.int64), ONE.copy(), np.zeros((1, 4), np.float32)
PLAIN = FilterRows.pack([FilterParameters(1.0, 0, 1.0)])
BOUNDED: dict[str, Callable[[NativeKernels], None]] = {
    "filter": lambda each: each.filter(ROW[:1], PLAIN, OUT, FLAG),
    "draw": lambda each: each.draw(ROW[:1], SEED, WORD, WORD, ONE.copy()),
    "draft": lambda each: each.draft(
        HEADS[1], ONE, ONE, HEADS[0], PLAIN, SEED, WORD, WORD, OUT, OUT.copy(), ONE.copy(), FLAG
    ),
    "score": lambda each: each.score(HEADS[1], ONE, ONE, HEADS[0], PLAIN, OUT, OUT.copy(), FLAG),
    "accept_rejection": lambda each: each.accept_rejection(
        ROW, ROW[:1], ONE, ONE + 1, ONE, SEED, WORD, ONE.copy(), ONE.copy()
    ),
    "accept_commit": lambda each: each.accept_commit(
        ROW, ROW[:1], ONE, ONE, ONE + 1, SEED, WORD, *COMMITTED, ONE.copy(), ONE.copy()
    ),
    "draw_talker": lambda each: each.draw_talker(
        OUT, BYTES, OUT[0, :1], BYTES[0], 0, BYTES[0, :1], PLAIN, SEED, WORD, OUT.copy(), ONE.copy(), FLAG
    ),
}


@pytest.mark.parametrize("operation", BOUNDED)
def test_a_vocabulary_beyond_4096_is_refused_by_name_and_size(native: NativeKernels, operation: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"^cpspec_{operation}: .*4097.*4096"):
        BOUNDED[operation](native)
