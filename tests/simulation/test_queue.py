"""Work runs when somebody waits for it and not before, so that a missing wait shows as stale data."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.simulation.faults import SimulationFault
from tests.simulation.simulation import Simulation
from tests.simulation.workbench import Workbench


@pytest.fixture
def bench(simulation: Simulation) -> Workbench:
    return Workbench(simulation)


def test_a_copy_to_pinned_memory_is_stale_until_the_stream_was_waited_for(bench: Workbench) -> None:
    source, host = bench.device(16), bench.pinned(16)
    bench.upload(source, np.arange(4, dtype=np.float32))
    bench.download(host, source)
    assert np.isnan(bench.view(host)).all()
    bench.wait()
    assert bench.view(host).tolist() == [0, 1, 2, 3]
    bench.close()


def test_pageable_memory_is_read_at_the_call_and_pinned_memory_when_the_copy_runs(bench: Workbench) -> None:
    pageable, pinned, device, result = np.full(4, 1, np.float32), bench.pinned(16), bench.device(32), bench.pinned(32)
    bench.view(pinned)[:] = 1
    bench.upload(device, pageable)
    bench.runtime.cudaMemcpyAsync(device + 16, pinned, 16, bench.kinds.cudaMemcpyHostToDevice, bench.stream)
    pageable[:], bench.view(pinned)[:] = 2, 2
    bench.download(result, device, 32)
    bench.wait()
    assert bench.view(result, 8).tolist() == [1, 1, 1, 1, 2, 2, 2, 2]
    bench.close()


def test_a_copy_to_pageable_memory_waits_and_counts_as_a_synchronisation(bench: Workbench) -> None:
    device, host = bench.device(16), np.zeros(4, np.float32)
    bench.upload(device, np.arange(4, dtype=np.float32))
    bench.download(host, device, 16)
    assert host.tolist() == [0, 1, 2, 3]
    assert bench.simulation.counts.synchronisations == 1
    bench.close()


def test_a_blocking_copy_does_not_wait_for_a_stream_of_its_own_kind(bench: Workbench) -> None:
    device, host = bench.device(16), np.zeros(4, np.float32)
    bench.upload(device, np.ones(4, np.float32))
    bench.runtime.cudaMemcpy(host, device, 16, bench.kinds.cudaMemcpyDeviceToHost)
    assert np.isnan(host).all()
    bench.wait()
    bench.runtime.cudaMemcpy(host, device, 16, bench.kinds.cudaMemcpyDeviceToHost)
    assert host.tolist() == [1, 1, 1, 1]
    bench.close()


def test_streams_are_independent_unless_one_waits_for_an_event_of_the_other(bench: Workbench) -> None:
    runtime = bench.runtime
    device, host = bench.device(16), bench.pinned(16)
    _, other = runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking)
    _, event = runtime.cudaEventCreateWithFlags(runtime.cudaEventDisableTiming)
    copy = (host, device, 16, bench.kinds.cudaMemcpyDeviceToHost, other)
    bench.upload(device, np.ones(4, np.float32))
    runtime.cudaEventRecord(event, bench.stream)
    runtime.cudaMemcpyAsync(*copy)
    runtime.cudaStreamSynchronize(other)
    assert np.isnan(bench.view(host)).all()
    runtime.cudaStreamWaitEvent(other, event, 0)
    runtime.cudaMemcpyAsync(*copy)
    runtime.cudaStreamSynchronize(other)
    assert bench.view(host).tolist() == [1, 1, 1, 1]
    runtime.cudaStreamDestroy(other)
    runtime.cudaEventDestroy(event)
    bench.close()


def test_an_event_is_reached_with_the_work_before_it_and_none_behind_it(bench: Workbench) -> None:
    runtime = bench.runtime
    device, first, second = bench.device(16), bench.pinned(16), bench.pinned(16)
    _, event = runtime.cudaEventCreate()
    bench.upload(device, np.ones(4, np.float32))
    bench.download(first, device)
    runtime.cudaEventRecord(event, bench.stream)
    bench.download(second, device)
    runtime.cudaEventSynchronize(event)
    assert bench.view(first).tolist() == [1, 1, 1, 1]
    assert np.isnan(bench.view(second)).all()
    runtime.cudaEventDestroy(event)
    bench.close()


def test_polling_a_stream_comes_to_an_end(bench: Workbench) -> None:
    device, polls = bench.device(16), 0
    for _ in range(3):
        bench.upload(device, np.ones(4, np.float32))
    while bench.runtime.cudaStreamQuery(bench.stream)[0] != bench.runtime.cudaError_t.cudaSuccess:
        polls += 1
    assert polls == 2
    bench.close()


def test_the_time_between_events_is_told_once_both_are_reached(bench: Workbench) -> None:
    runtime = bench.runtime
    events = [runtime.cudaEventCreate()[1] for _ in range(2)]
    for event in events:
        runtime.cudaEventRecord(event, bench.stream)
    assert runtime.cudaEventElapsedTime(*events)[0] == runtime.cudaError_t.cudaErrorNotReady
    bench.wait()
    status, milliseconds = runtime.cudaEventElapsedTime(*events)
    assert status == runtime.cudaError_t.cudaSuccess
    assert milliseconds >= 0
    for event in events:
        runtime.cudaEventDestroy(event)
    bench.close()


def test_a_two_dimensional_copy_moves_rows_between_pitches(bench: Workbench) -> None:
    device, host = bench.device(32), np.zeros((2, 2), np.float32)
    source = np.arange(8, dtype=np.float32).reshape(2, 4)
    runtime, kinds = bench.runtime, bench.kinds
    runtime.cudaMemcpy2DAsync(device, 16, source, 16, 16, 2, kinds.cudaMemcpyHostToDevice, bench.stream)
    runtime.cudaMemcpy2DAsync(host, 8, device + 4, 16, 8, 2, kinds.cudaMemcpyDeviceToHost, bench.stream)
    assert host.tolist() == source[:, 1:3].tolist()
    bench.close()


def test_memory_sets_happen_in_stream_order(bench: Workbench) -> None:
    device, host = bench.device(16), bench.pinned(16)
    bench.runtime.cudaMemsetAsync(device, 0, 16, bench.stream)
    bench.download(host, device)
    bench.upload(device, np.ones(4, np.float32))
    bench.wait()
    assert bench.view(host).tolist() == [0, 0, 0, 0]
    bench.close()


def test_freeing_memory_waits_for_the_work_that_uses_it(bench: Workbench) -> None:
    device, host = bench.device(16), bench.pinned(16)
    bench.upload(device, np.ones(4, np.float32))
    bench.download(host, device)
    bench.free(device)
    assert bench.view(host).tolist() == [1, 1, 1, 1]
    bench.close()


def test_device_memory_cannot_be_touched_by_the_host(bench: Workbench) -> None:
    device = bench.device(4096)
    assert not readable(device)
    assert readable(bench.pinned(4096))
    bench.close()


def readable(address: int) -> bool:
    """Whether this process may read an address: asks the system, which refuses where reading would be a fault."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptors = (ctypes.c_int * 2)()
    assert libc.pipe(descriptors) == 0
    read, write = descriptors
    try:
        return int(libc.write(write, ctypes.c_void_p(address), ctypes.c_size_t(1))) == 1
    finally:
        libc.close(read)
        libc.close(write)


def test_fresh_and_freed_memory_holds_poison(bench: Workbench) -> None:
    pinned = bench.pinned(16)
    view = bench.view(pinned)
    assert np.isnan(view).all()
    view[:] = 0
    bench.free(pinned)
    assert np.isnan(view).all()
    bench.close()


def test_memory_that_does_not_fit_is_an_error_of_cuda(bench: Workbench) -> None:
    status, address = bench.runtime.cudaMalloc(2 << 30)
    assert (status, address) == (bench.runtime.cudaError_t.cudaErrorMemoryAllocation, None)
    _, free, total = bench.runtime.cudaMemGetInfo()
    held = bench.device(1 << 20)
    assert bench.runtime.cudaMemGetInfo()[1:] == (free - (1 << 20), total)
    bench.free(held)
    bench.close()


def test_the_default_stream_is_refused(bench: Workbench) -> None:
    device = bench.device(16)
    with pytest.raises(SimulationFault, match="default stream"):
        bench.runtime.cudaMemsetAsync(device, 0, 16, None)
    bench.simulation.forgive()
