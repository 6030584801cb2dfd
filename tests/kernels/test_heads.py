"""Grouped heads, alone and fused with the filter and the draw."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows, Kernels

FLOATS = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def _heads(
    kernels: Kernels, hidden: np.ndarray, rows: list[int], head_rows: list[int], heads: np.ndarray
) -> np.ndarray:
    logits = np.full((len(rows), heads.shape[1]), np.nan, np.float32)
    kernels.grouped_heads(hidden, np.array(rows, np.int64), np.array(head_rows, np.int64), heads, logits)
    return logits


@pytest.mark.parametrize(("vocabulary", "width"), [(512, 1024), (257, 96), (3, 5)])
def test_a_head_product_has_the_same_bits_however_many_others_are_computed(
    kernels: Kernels, vocabulary: int, width: int
) -> None:
    random = np.random.default_rng(width)
    heads = random.normal(size=(3, vocabulary, width)).astype(np.float32)
    hidden = random.normal(size=(6, width)).astype(np.float32)
    rows, head_rows = [0, 1, 5, 2, 2, 3, 4, 0, 1, 2, 3], [0, 0, 2, 1, 2, 0, 1, 2, 2, 0, 0]
    together = _heads(kernels, hidden, rows, head_rows, heads)
    for index, (row, head) in enumerate(zip(rows, head_rows, strict=True)):
        alone = _heads(kernels, hidden[row : row + 1].copy(), [0], [head], heads)
        np.testing.assert_array_equal(alone[0], together[index])


@pytest.mark.parametrize("width", [1, 31, 32, 33, 256, 1000, 2048])
@pytest.mark.parametrize("dtypes", list(itertools.product(FLOATS, FLOATS)), ids="-".join)
def test_grouped_heads_equal_float64_within_rounding(kernels: Kernels, dtypes: tuple[str, str], width: int) -> None:
    random = np.random.default_rng(width)
    heads = (random.normal(size=(4, 60, width)) / np.sqrt(width)).astype(FLOATS[dtypes[0]])
    hidden = random.normal(size=(5, width)).astype(FLOATS[dtypes[1]])
    rows, head_rows = [4, 0, 3, 3, 1, 2], [1, 0, 3, 2, 1, 1]
    want = np.einsum("rvh,rh->rv", heads[head_rows].astype(float), hidden[rows].astype(float))
    np.testing.assert_allclose(_heads(kernels, hidden, rows, head_rows, heads), want, atol=1e-5)


def test_more_rows_than_one_read_serves_get_the_same_bits(native: NativeKernels) -> None:
    random = np.random.default_rng(1)
    heads = random.normal(size=(2, 9, 70)).astype(np.float32)
    hidden = random.normal(size=(75, 70)).astype(np.float32)
    rows = list(range(75))
    together = _heads(native, hidden, rows, [1] * 75, heads)
    for row in (0, 1, 31, 32, 33, 63, 64, 74):
        np.testing.assert_array_equal(_heads(native, hidden, [row], [1], heads)[0], together[row])


def test_the_order_of_summation_is_32_strided_lanes_and_a_butterfly(native: NativeKernels) -> None:
    random = np.random.default_rng(2)
    width = 32 * 3 + 11
    # Small integers times powers of two make every multiply-add exact, so that only the lanes' sums round.
    weights = (random.integers(-7, 8, (1, 40, width)) * 2.0 ** random.integers(0, 12, width)).astype(np.float32)
    hidden = np.exp2(random.integers(-6, 6, (1, width))).astype(np.float32)
    products = weights[0] * hidden[0]
    lanes = np.zeros((40, 32), np.float32)
    for begin in range(0, width, 32):
        part = products[:, begin : begin + 32]
        lanes[:, : part.shape[1]] += part
    for distance in (16, 8, 4, 2, 1):
        lanes = lanes[:, :distance] + lanes[:, distance : 2 * distance]
    np.testing.assert_array_equal(_heads(native, hidden, [0], [0], weights)[0], lanes[:, 0])


@pytest.fixture(scope="module", params=FLOATS)
def fused(request: pytest.FixtureRequest) -> dict[str, np.ndarray]:
    dtype = FLOATS[request.param]
    random = np.random.default_rng(9)
    rows = 7
    return {
        "hidden": random.normal(size=(3, 64)).astype(dtype),
        "hidden_rows": random.integers(0, 3, rows),
        "head_rows": random.integers(0, 4, rows),
        "heads": (random.normal(size=(4, 130, 64)) / 4).astype(dtype),
        "seeds": random.integers(0, 2**64, rows, dtype=np.uint64),
        "streams": stream(Purpose.DRAFT, random.integers(2, 16, rows), random.integers(1, 14, rows)),
        "frames": random.integers(0, 99, rows).astype(np.uint32),
    }


FILTERS = FilterRows.pack(
    [FilterParameters(*each) for each in ((0.9, 50, 0.8), (0.0, 0, 1.0), (1.2, 0, 0.7), (1.0, 3, 1.0))] * 2
).take(np.arange(7))


def test_a_fused_draft_equals_its_three_steps(kernels: Kernels, fused: dict[str, np.ndarray]) -> None:
    logits, want, scores, got = np.full((4, 7, 130), np.nan, np.float32)
    errors, flags, codes, drafts = np.full(7, 9, np.int32), np.full(7, 9, np.int32), np.empty(7, int), np.empty(7, int)
    source = fused["hidden"], fused["hidden_rows"], fused["head_rows"], fused["heads"]
    noise = fused["seeds"], fused["streams"], fused["frames"]
    kernels.grouped_heads(*source, logits)
    kernels.filter(logits, FILTERS, want, errors)
    kernels.draw(want, *noise, codes)
    kernels.draft(*source, FILTERS, *noise, scores, got, drafts, flags)
    np.testing.assert_array_equal(scores, logits)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(drafts, codes)
    assert not flags.any()
    assert not errors.any()


def test_a_fused_score_equals_its_two_steps(kernels: Kernels, fused: dict[str, np.ndarray]) -> None:
    logits, want, scores, got = np.full((4, 7, 130), np.nan, np.float32)
    errors, flags = np.full(7, 9, np.int32), np.full(7, 9, np.int32)
    source = fused["hidden"], fused["hidden_rows"], fused["head_rows"], fused["heads"]
    kernels.grouped_heads(*source, logits)
    kernels.filter(logits, FILTERS, want, errors)
    kernels.score(*source, FILTERS, scores, got, flags)
    np.testing.assert_array_equal(scores, logits)
    np.testing.assert_array_equal(got, want)
    assert not flags.any()
    assert not errors.any()


def test_a_faulty_slot_is_flagged_gets_no_draft_and_spares_the_others(
    kernels: Kernels, fused: dict[str, np.ndarray]
) -> None:
    hidden = fused["hidden"].copy()
    hidden[1, 5] = np.nan
    struck = fused["hidden_rows"] == 1
    assert struck.any()
    assert not struck.all()
    logits, probabilities = np.full((2, 7, 130), np.nan, np.float32)
    codes, errors = np.full(7, -9), np.full(7, 9, np.int32)
    kernels.draft(
        hidden,
        fused["hidden_rows"],
        fused["head_rows"],
        fused["heads"],
        FILTERS,
        fused["seeds"],
        fused["streams"],
        fused["frames"],
        logits,
        probabilities,
        codes,
        errors,
    )
    np.testing.assert_array_equal(errors, struck)
    np.testing.assert_array_equal(codes == -1, struck)
    np.testing.assert_array_equal(probabilities.any(axis=1), ~struck)
