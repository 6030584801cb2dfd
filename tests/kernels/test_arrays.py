"""What a C library is given for a numpy array."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.kernels.arrays import FLOAT32, INT64, address, checked, checked_floats


@pytest.mark.parametrize("dtype", [np.float32, np.int64, ml_dtypes.bfloat16])
def test_an_array_without_elements_is_passed_as_null(dtype: type) -> None:
    empty = np.empty((0, 5), dtype)
    assert address(empty) == 0
    assert checked("empty", empty, np.dtype(dtype), (0, 5)) == 0


def test_an_array_is_passed_by_its_address_whether_or_not_it_may_be_written() -> None:
    floats = np.ones(3, np.float32)
    frozen = floats.view()
    frozen.flags.writeable = False
    for array in (floats, frozen):
        assert checked("floats", array, FLOAT32, (3,)) == address(array) == floats.ctypes.data
    narrow = np.ones(3, ml_dtypes.bfloat16)
    assert checked_floats("narrow", narrow, (3,)) == (narrow.ctypes.data, 2)


def test_an_empty_array_of_the_wrong_shape_or_dtype_is_still_refused() -> None:
    with pytest.raises(UsageError, match=r"^kernels: drafts must be a contiguous int64 array of shape \(1,\), not"):
        checked("drafts", np.empty(0, np.int64), INT64, (1,))
    with pytest.raises(UsageError, match="not a contiguous float64 array"):
        checked("drafts", np.empty(0), INT64, (0,))
