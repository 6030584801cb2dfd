"""What carries arrays to a device and back, tried with the emulated kernels and memory of the host."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.kernels.arrays import address
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from scripts.gpu.suite import run_suite
from tests.plugins.building import make
from tests.plugins.cuda.cases import acceptance_cases, copying_cases, heads_cases, logits_cases
from tests.plugins.device import SIMULATED, DeviceKernels
from tests.plugins.emulated import Schedule, emulated_kernels
from tests.plugins.simulated_device import HostMemory, simulated_kernels


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


def test_the_simulated_device_refuses_memory_that_is_not_its_own() -> None:
    library = simulated_kernels().library
    here = np.zeros(4, np.float32)
    with pytest.raises(AssertionError, match="evaluate: argument 1 is an address that the device cannot reach"):
        library.call("evaluate", 0, address(here), 4, address(here))
    kernels = NativeKernels(library)
    law, word = np.ones((1, 4), np.float32), np.zeros(1, np.uint32)
    with pytest.raises(AssertionError, match="draw: argument 0 is an address"):
        kernels.draw(law, np.zeros(1, np.uint64), word, word, np.zeros(1, np.int64))
    with pytest.raises(AssertionError, match=r"sum_codec_embeddings: TablesStruct.tables is an address"):
        kernels.sum_codec_embeddings([law], np.zeros((1, 1), np.int64), np.zeros((1, 4), np.float32))


def test_the_suite_of_the_device_can_be_run() -> None:
    make("emulated")
    done = run_suite(SIMULATED, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
