"""numpy arrays as a C library takes them: checked once for dtype, shape and layout, then an address.

An array without elements has no address that means anything: it is passed as NULL.
"""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np

from cpspec_trt.errors import UsageError

FLOAT32 = np.dtype(np.float32)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)
UINT8 = np.dtype(np.uint8)
UINT32 = np.dtype(np.uint32)
UINT64 = np.dtype(np.uint64)

# Values of cpspec_dtype.
FLOAT_CODES = {FLOAT32: 0, np.dtype(np.float16): 1, np.dtype(ml_dtypes.bfloat16): 2}

_view = ctypes.c_char.from_buffer
_address = ctypes.addressof


def address(array: np.ndarray) -> int:
    """Where an array's data lies; 0 where it has none."""
    try:
        # several times faster than ``ctypes.data``
        return _address(_view(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, empty, or bfloat16, which has no buffer format
        return int(array.ctypes.data) if array.size else 0


def checked(name: str, array: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> int:
    """The address of an array that has to have this dtype and shape; 0 where it is empty.

    Raises:
        UsageError: it has not, or its elements do not follow one another in memory.
    """
    if array.dtype == dtype and array.shape == shape:
        try:
            return _address(_view(array))  # type: ignore[arg-type]  # refuses a strided array by itself
        except (TypeError, ValueError):
            if array.flags.c_contiguous:
                return int(array.ctypes.data) if array.size else 0
    raise UsageError(f"kernels: {name} must be a contiguous {dtype} array of shape {shape}, not {_said(array)}")


def optional(name: str, array: np.ndarray | None, dtype: np.dtype, shape: tuple[int, ...]) -> int:
    """The same, and 0 where there is no array."""
    return 0 if array is None else checked(name, array, dtype, shape)


def checked_floats(name: str, array: np.ndarray, shape: tuple[int, ...]) -> tuple[int, int]:
    """Address and ``cpspec_dtype`` of an array of any float type of the interface.

    Raises:
        UsageError: another dtype or shape, or not contiguous.
    """
    code = FLOAT_CODES.get(array.dtype)
    if code is None:
        raise UsageError(f"kernels: {name} must be float32, float16 or bfloat16, not {array.dtype}")
    return checked(name, array, array.dtype, shape), code


def _said(array: np.ndarray) -> str:
    layout = "contiguous" if array.flags.c_contiguous else "strided"
    return f"a {layout} {array.dtype} array of shape {array.shape}"
