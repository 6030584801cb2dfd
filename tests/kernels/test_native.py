"""What native kernels refuse at the border, before or inside the library."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cpspec_trt.errors import NumericError, UsageError
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows

FILTERS = FilterRows.pack([FilterParameters(0.9, 4, 0.8)] * 2)
LOGITS = np.random.default_rng(0).normal(size=(2, 9)).astype(np.float32)


def _outputs() -> tuple[np.ndarray, np.ndarray]:
    return np.full((2, 9), np.nan, np.float32), np.full(2, 99, np.int32)


def test_arrays_of_the_wrong_dtype_shape_or_layout_are_refused_by_name(native: NativeKernels) -> None:
    probabilities, errors = _outputs()
    wrong = [
        ((LOGITS.astype(np.float64), FILTERS, probabilities, errors), "logits must be float32, float16 or bfloat16"),
        ((np.asfortranarray(LOGITS), FILTERS, probabilities, errors), "logits must be a contiguous .* not a strided"),
        ((LOGITS, FILTERS, probabilities[:, :8].copy(), errors), r"probabilities must .* shape \(2, 9\), not .*8"),
        ((LOGITS, FILTERS, probabilities, errors.astype(np.int64)), "errors must be a contiguous int32 array"),
        ((LOGITS, FILTERS.take(np.array([0])), probabilities, errors), r"temperature must .* shape \(2,\)"),
    ]
    for arguments, message in wrong:
        with pytest.raises(UsageError, match=f"^kernels: {message}"):
            native.filter(*arguments)
    assert np.isnan(probabilities).all()


def test_read_only_arrays_are_read(native: NativeKernels) -> None:
    frozen = LOGITS.copy()
    frozen.flags.writeable = False
    want, errors = _outputs()
    native.filter(LOGITS, FILTERS, want, errors)
    got, _ = _outputs()
    native.filter(frozen, FILTERS, got, errors)
    np.testing.assert_array_equal(got, want)


def test_no_rows_are_legal_and_do_nothing(native: NativeKernels) -> None:
    none, empty = np.empty((0, 9), np.float32), np.empty(0, np.int64)
    native.filter(none, FILTERS.take(empty), none, np.empty(0, np.int32))
    native.argmax(none, empty, np.empty(0, np.int32))
    words = np.empty(0, np.uint32)
    native.draw(none, np.empty(0, np.uint64), words, words, empty)
    native.grouped_heads(np.ones((1, 3), np.float32), empty, empty, np.ones((1, 9, 3), np.float32), none)
    native.accept_greedy(empty, empty, empty, empty, empty)
    native.accept_rejection(none, none, empty, empty, empty, np.empty(0, np.uint64), words, empty, empty)


def test_parameters_changed_between_calls_are_seen(native: NativeKernels) -> None:
    probabilities, errors = _outputs()
    for top_k in (2, 5):
        native.filter(LOGITS, FilterRows.pack([FilterParameters(1.0, top_k, 1.0)] * 2), probabilities, errors)
        assert (probabilities > 0).sum(axis=1).tolist() == [top_k, top_k]
    changing = FilterRows.pack([FilterParameters(1.0, 3, 1.0)] * 2)
    native.filter(LOGITS, changing, probabilities, errors)
    changing.top_k[:] = 6
    native.filter(LOGITS, changing, probabilities, errors)
    assert (probabilities > 0).sum(axis=1).tolist() == [6, 6]


def test_a_law_without_mass_is_an_error(native: NativeKernels) -> None:
    one, word = np.zeros(1, np.int64), np.zeros(1, np.uint32)
    with pytest.raises(NumericError, match="without mass"):
        native.accept_rejection(
            np.zeros((1, 5), np.float32),
            np.zeros((0, 5), np.float32),
            np.zeros(0, np.int64),
            one,
            one + 1,
            np.zeros(1, np.uint64),
            word,
            one.copy(),
            one.copy(),
        )


def test_tables_of_different_dtypes_are_refused(native: NativeKernels) -> None:
    tables = [np.ones((3, 4), np.float32), np.ones((3, 4), ml_dtypes.bfloat16)]
    with pytest.raises(UsageError, match="of one dtype"):
        native.sum_codec_embeddings(tables, np.zeros((1, 2), np.int64), np.empty((1, 4), np.float32))


def test_operations_are_counted(native: NativeKernels) -> None:
    probabilities, errors = _outputs()
    before = native.library.launches
    for _ in range(3):
        native.filter(LOGITS, FILTERS, probabilities, errors)
    assert native.library.launches == before + 3
