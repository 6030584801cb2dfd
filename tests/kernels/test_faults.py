"""What a faulty row of logits is called."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.faults import ALL_MASKED, NOT_FINITE, RowNumericError, raise_first


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
