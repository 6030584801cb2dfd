"""Arrays that do not lie in ordinary memory: on the GPU, or page-locked for copies to and from it."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from cpspec_trt.errors import UsageError

Shape = tuple[int, ...]
ALIGNMENT = 256  # what TensorRT asks of the address of a tensor, and what cudaMalloc gives


def dtype_named(name: str) -> np.dtype:
    """The dtype of a manifest's name; ``bfloat16`` is that of ml_dtypes."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """A dense row-major array on the GPU. It says where the elements lie; whoever allocated them frees them.

    Attributes:
        address: of the first element.
        dtype: of an element.
        shape: sizes.
    """

    address: int
    dtype: np.dtype
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def row(self, index: int) -> DeviceArray:
        """Entry ``index`` of the first axis, as an array whose first axis has size 1."""
        return self.rows(index, index + 1)

    def rows(self, begin: int, end: int) -> DeviceArray:
        """Entries ``begin`` … ``end - 1`` of the first axis."""
        if not 0 <= begin <= end <= self.shape[0]:
            raise UsageError(f"device array: rows {begin} to {end} of {self.shape[0]}")
        step = self.nbytes // self.shape[0]
        return DeviceArray(self.address + begin * step, self.dtype, (end - begin, *self.shape[1:]))

    def leading(self, *shape: int) -> DeviceArray:
        """The first elements as an array of another shape."""
        part = DeviceArray(self.address, self.dtype, shape)
        if part.nbytes > self.nbytes:
            raise UsageError(f"device array: {shape} does not fit into {self.shape}")
        return part


@dataclass(frozen=True, slots=True)
class PinnedArray:
    """A dense row-major array in page-locked memory, which the GPU copies from and to without a staging copy.

    Attributes:
        address: of the first element.
        host: the same memory as a numpy array.
    """

    address: int
    host: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.host.nbytes)


def view_of_memory(address: int, dtype: np.dtype, shape: Shape) -> np.ndarray:
    """Memory of this process as a numpy array. It is not kept alive by it."""
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    block = (ctypes.c_uint8 * size).from_address(address)
    whole: np.ndarray = np.ctypeslib.as_array(block)
    return whole.view(dtype).reshape(shape)
