"""The CUDA kernels, emulated under every schedule, and on a device where there is one."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest

from cpspec_trt.kernels.native import NativeKernels
from tests.plugins.device import DEVICE_VARIABLE, device_kernels
from tests.plugins.emulated import SCHEDULES, emulated_kernels

RUNS: dict[str, Callable[[], NativeKernels]] = {
    f"seed{each.seed}-{each.threads}threads": partial(emulated_kernels, each) for each in SCHEDULES
}
if DEVICE_VARIABLE in os.environ:
    RUNS["device"] = device_kernels


@pytest.fixture(scope="module", params=RUNS)
def cuda(request: pytest.FixtureRequest) -> NativeKernels:
    """The CUDA kernels, emulated under a schedule or on a device."""
    return RUNS[request.param]()
