"""Whether this machine has a GPU, asked of the driver alone: before anything is built."""

from __future__ import annotations

import ctypes

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


class NoDevice(Exception):
    """There is none; the message says how that showed."""


def compute_capability() -> int:
    """Of the first device, for example 90.

    Raises:
        NoDevice: there is no driver or no device.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise NoDevice("the NVIDIA driver is not installed (libcuda.so.1 is missing)") from None
    if status := driver.cuInit(0):
        raise NoDevice(f"the NVIDIA driver finds no GPU (cuInit returned {status})")
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if status := driver.cuDeviceGet(ctypes.byref(device), 0):
        raise NoDevice(f"the NVIDIA driver gives no GPU (cuDeviceGet returned {status})")
    driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
    return 10 * major.value + minor.value
