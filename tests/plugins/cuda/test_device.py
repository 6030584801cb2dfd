"""What carries arrays to a device and back, tried with the emulated kernels and memory of the host."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from tests.plugins.cuda.cases import acceptance_cases, copying_cases, heads_cases, logits_cases
from tests.plugins.device import DeviceKernels
from tests.plugins.emulated import Schedule, emulated_kernels


class HostMemory:
    """Counts what it gave out."""

    def __init__(self) -> None:
        self.held: dict[int, ctypes.Array[ctypes.c_uint8]] = {}

    def allocate(self, size: int) -> int:
        block = (ctypes.c_uint8 * size)()
        self.held[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def release(self, memory: int) -> None:
        del self.held[memory]


def test_calls_over_shared_memory_give_the_results_of_calls_without_it() -> None:
    direct = emulated_kernels(Schedule(0, 128))
    memory = HostMemory()
    carried = DeviceKernels(emulated_kernels(Schedule(0, 128)).library, memory)
    random = np.random.default_rng(3)
    cases = {
        **logits_cases(random, 97),
        **heads_cases(random, 97, 32),
        **acceptance_cases(random, 97, 8),
        **copying_cases(random, 97, 8),
    }
    own = len(memory.held)
    for name, run in cases.items():
        for want, got in zip(run(direct), run(carried), strict=True):
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8), err_msg=name)
    assert len(memory.held) - own <= 9  # a workspace and the addresses of four lists stay; no argument does


def test_a_refused_call_gives_its_memory_back() -> None:
    memory = HostMemory()
    kernels = DeviceKernels(emulated_kernels(Schedule(0, 128)).library, memory)
    own = len(memory.held)
    filters = FilterRows.pack([FilterParameters(1.0, 0, 1.0)])
    with pytest.raises(UsageError, match="strided"):
        kernels.filter(np.zeros((1, 8), np.float32)[:, ::2], filters, np.zeros((1, 4), np.float32), np.zeros(1, int))
    assert len(memory.held) == own
