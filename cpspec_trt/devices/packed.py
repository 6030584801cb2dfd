"""Several arrays in one block of memory: one fill, or one copy, for all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from cpspec_trt.devices.arrays import ALIGNMENT, DeviceArray, Shape, view_of_memory
from cpspec_trt.devices.device import Device

Contents = Mapping[str, tuple[Shape, np.dtype]]  # name -> shape and dtype
_BYTE = np.dtype(np.uint8)


class DeviceBlock:
    """Arrays in one allocation on the GPU, each aligned for TensorRT.

    Attributes:
        whole: all of it, as bytes.
        arrays: the arrays by name, zeroed.
    """

    def __init__(self, device: Device, contents: Contents) -> None:
        """Allocate.

        Raises:
            EngineError: there is no room.
        """
        offsets, size = _offsets(contents)
        self.whole = device.array((size,), _BYTE)
        self.arrays = {
            name: DeviceArray(self.whole.address + offsets[name], dtype, shape)
            for name, (shape, dtype) in contents.items()
        }


class Packed:
    """Arrays in one block on the GPU and in one of page-locked memory, so that one copy moves all of them.

    Attributes:
        host: the arrays in page-locked memory, by name.
        device: the same on the GPU.
    """

    def __init__(self, device: Device, contents: Contents) -> None:
        """Allocate both.

        Raises:
            EngineError: there is no room.
        """
        self._owner = device
        self._block = DeviceBlock(device, contents)
        self._pinned = device.pinned(self._block.whole.shape, _BYTE)
        begin = self._block.whole.address
        self.device = self._block.arrays
        self.host = {
            name: view_of_memory(self._pinned.address + array.address - begin, array.dtype, array.shape)
            for name, array in self.device.items()
        }

    def host_bytes_before(self, name: str) -> np.ndarray:
        """The page-locked bytes of every array listed in front of ``name``, uint8."""
        return self._pinned.host[: self.device[name].address - self._block.whole.address]

    def upload(self) -> None:
        """Copy the whole block to the GPU (see ``Device.upload``)."""
        self._owner.upload(self._block.whole, self._pinned)

    def download(self) -> None:
        """Copy the whole block from the GPU (see ``Device.download``)."""
        self._owner.download(self._pinned, self._block.whole)


def _offsets(contents: Contents) -> tuple[dict[str, int], int]:
    """Where each array of a block begins, and the size of the block."""
    offsets, end = {}, 0
    for name, (shape, dtype) in contents.items():
        offsets[name] = end
        size = math.prod(shape) * dtype.itemsize
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return offsets, max(end, ALIGNMENT)
