"""Every misuse of memory, streams, events and graphs is a fault, also where the product swallows it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from tests.simulation.faults import SimulationFault
from tests.simulation.simulation import Simulation, simulated
from tests.simulation.workbench import Workbench

Misuse = Callable[[Workbench], object]


def freed(bench: Workbench) -> int:
    address = bench.device(16)
    bench.free(address)
    return address


def captured(bench: Workbench, call: Callable[[], object]) -> object:
    runtime = bench.runtime
    runtime.cudaStreamBeginCapture(bench.stream, runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal)
    return call()


def copy(bench: Workbench, target: object, source: object, size: int, kind: str) -> object:
    return bench.runtime.cudaMemcpyAsync(target, source, size, getattr(bench.kinds, f"cudaMemcpy{kind}"), bench.stream)


def graph_of_freed_memory(bench: Workbench) -> object:
    address = bench.device(16)
    graph = bench.graph(lambda: bench.runtime.cudaMemsetAsync(address, 0, 16, bench.stream))
    bench.free(address)
    return bench.runtime.cudaGraphLaunch(graph, bench.stream)


def wait_for_captured_event(bench: Workbench) -> object:
    _, event = bench.runtime.cudaEventCreate()
    bench.graph(lambda: bench.runtime.cudaEventRecord(event, bench.stream))
    return bench.runtime.cudaEventSynchronize(event)


def destroyed_stream(bench: Workbench) -> object:
    _, stream = bench.runtime.cudaStreamCreate()
    bench.runtime.cudaStreamDestroy(stream)
    return bench.runtime.cudaStreamSynchronize(stream)


def event_as_stream(bench: Workbench) -> object:
    _, event = bench.runtime.cudaEventCreate()
    return bench.runtime.cudaStreamSynchronize(int(event))


def write_behind(bench: Workbench, offset: int) -> object:
    address = bench.pinned(16)
    ctypes.memset(address + offset, 1, 1)
    return bench.runtime.cudaFreeHost(address)


MISUSES: dict[str, tuple[Misuse, str]] = {
    "free twice": (lambda b: b.runtime.cudaFree(freed(b)), "freed twice"),
    "free inside": (lambda b: b.runtime.cudaFree(b.device(16) + 4), "not the start of device memory"),
    "free pinned as device": (lambda b: b.runtime.cudaFree(b.pinned(16)), "not the start of device memory"),
    "free device as pinned": (lambda b: b.runtime.cudaFreeHost(b.device(16)), "not the start of pinned memory"),
    "free numpy": (lambda b: b.runtime.cudaFree(np.zeros(4).ctypes.data), "not the start of device memory"),
    "write behind": (lambda b: write_behind(b, 16), "wrote behind"),
    "write before": (lambda b: write_behind(b, -1), "wrote before"),
    "set freed": (lambda b: b.runtime.cudaMemsetAsync(freed(b), 0, 16, b.stream), "use after free"),
    "copy from freed": (lambda b: copy(b, b.pinned(16), freed(b), 16, "DeviceToHost"), "use after free"),
    "copy too much": (lambda b: copy(b, b.pinned(32), b.device(16), 32, "DeviceToHost"), "do not fit into 16 bytes"),
    "copy into too little": (lambda b: copy(b, b.pinned(8), b.device(16), 16, "DeviceToHost"), "do not fit into 8"),
    "copy short array": (lambda b: copy(b, b.device(16), np.zeros(2, np.float32), 16, "HostToDevice"), "buffer of 8"),
    "copy backwards": (lambda b: copy(b, b.device(16), b.pinned(16), 16, "DeviceToHost"), "from pinned to device"),
    "copy host as device": (lambda b: copy(b, np.zeros(4), b.device(16), 16, "DeviceToDevice"), "device to pageable"),
    "copy null": (lambda b: copy(b, None, b.device(16), 16, "DeviceToHost"), "null pointer"),
    "copy wide rows": (
        lambda b: b.runtime.cudaMemcpy2DAsync(1, 4, 1, 4, 8, 2, b.kinds.cudaMemcpyDeviceToDevice, b.stream),
        "wider than a pitch",
    ),
    "destroyed stream": (destroyed_stream, "not alive"),
    "event for stream": (event_as_stream, "not alive or of another kind"),
    "default stream": (lambda b: b.runtime.cudaStreamSynchronize(0), "default stream"),
    "time of an event never recorded": (
        lambda b: b.runtime.cudaEventElapsedTime(b.runtime.cudaEventCreate()[1], b.runtime.cudaEventCreate()[1]),
        "never recorded",
    ),
    "capture default stream": (
        lambda b: b.runtime.cudaStreamBeginCapture(0, b.runtime.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal),
        "default stream",
    ),
    "end without begin": (lambda b: b.runtime.cudaStreamEndCapture(b.stream), "not being captured"),
    "allocate in capture": (lambda b: captured(b, lambda: b.runtime.cudaMalloc(16)), "allocation of device memory is"),
    "pin in capture": (lambda b: captured(b, lambda: b.runtime.cudaHostAlloc(16, 0)), "allocation of pinned memory is"),
    "synchronise in capture": (lambda b: captured(b, b.wait), "cudaStreamSynchronize is forbidden"),
    "query in capture": (
        lambda b: captured(b, lambda: b.runtime.cudaStreamQuery(b.stream)),
        "cudaStreamQuery is forbidden",
    ),
    "device synchronise in capture": (
        lambda b: captured(b, b.runtime.cudaDeviceSynchronize),
        "cudaDeviceSynchronize is forbidden",
    ),
    "pageable memory in capture": (
        lambda b: (address := b.device(16)) and captured(b, lambda: b.upload(address, np.zeros(4, np.float32))),
        "pageable memory is forbidden",
    ),
    "blocking copy in capture": (
        lambda b: (
            (address := b.device(16))
            and captured(b, lambda: b.runtime.cudaMemcpy(np.zeros(4), address, 16, b.kinds.cudaMemcpyDeviceToHost))
        ),
        "cudaMemcpy is forbidden",
    ),
    "free in capture": (
        lambda b: (address := b.device(16)) and captured(b, lambda: b.runtime.cudaFree(address)),
        "cudaFree is forbidden",
    ),
    "graph of freed memory": (graph_of_freed_memory, "was freed"),
    "wait for a captured event": (wait_for_captured_event, "recorded into a graph"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_a_fault(simulation: Simulation, name: str) -> None:
    misuse, message = MISUSES[name]
    bench = Workbench(simulation)
    with pytest.raises(SimulationFault, match=message):
        misuse(bench)
    assert len(simulation.faults) == 1
    assert "test_misuse.py" in simulation.faults[0] or "workbench.py" in simulation.faults[0]
    simulation.forgive()


def test_memory_freed_while_a_graph_holds_it_is_seen_when_the_graph_runs(simulation: Simulation) -> None:
    bench = Workbench(simulation)
    address = bench.device(16)
    graph = bench.graph(lambda: bench.runtime.cudaMemsetAsync(address, 0, 16, bench.stream))
    bench.runtime.cudaGraphLaunch(graph, bench.stream)
    bench.wait()
    bench.runtime.cudaGraphExecDestroy(graph)
    bench.close()


def test_a_fault_that_the_product_swallows_still_fails_the_simulation() -> None:
    with (
        pytest.raises(SimulationFault, match="default stream"),
        simulated() as simulation,
        suppress(SimulationFault),
    ):
        simulation.runtime.cudaStreamSynchronize(0)


def test_a_fault_is_no_exception_that_a_handler_of_errors_would_catch() -> None:
    assert not issubclass(SimulationFault, Exception)


LEAKS: dict[str, tuple[Misuse, str]] = {
    "device memory": (lambda b: b.runtime.cudaMalloc(16), "16 bytes of device memory allocated at test_misuse.py"),
    "pinned memory": (lambda b: b.runtime.cudaMallocHost(16), "16 bytes of pinned memory"),
    "stream": (lambda b: b.runtime.cudaStreamCreate(), "a stream created at test_misuse.py"),
    "event": (lambda b: b.runtime.cudaEventCreate(), "an event created at"),
    "executable graph": (lambda b: b.graph(lambda: None), "an executable graph created at"),
}


@pytest.mark.parametrize("name", LEAKS)
def test_what_is_left_behind_is_named(name: str) -> None:
    leak, message = LEAKS[name]

    def run() -> None:
        with simulated() as simulation:
            bench = Workbench(simulation)
            leak(bench)
            bench.close()

    with pytest.raises(SimulationFault, match=message):
        run()


def test_a_machine_without_a_driver_gives_error_35_and_one_without_a_device_error_100() -> None:
    with simulated(driver=False) as simulation:
        assert simulation.runtime.cudaGetDeviceCount() == (35, None)
        assert simulation.runtime.cudaDriverGetVersion() == (0, 0)
    with simulated(devices=0) as simulation:
        assert simulation.runtime.cudaGetDeviceCount() == (100, None)


def test_wrong_types_are_refused_as_cuda_python_refuses_them(simulation: Simulation) -> None:
    runtime = simulation.runtime
    bench = Workbench(simulation)
    calls: list[Callable[[], object]] = [
        lambda: runtime.cudaMalloc(1.0),
        lambda: runtime.cudaFree("x"),
        lambda: runtime.cudaStreamSynchronize("x"),
        lambda: runtime.cudaMemcpyAsync(bench.device(4), bench.pinned(4), 4, 1, bench.stream),
        lambda: runtime.cudaStreamBeginCapture(bench.stream, 0),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    with pytest.raises(OverflowError):
        runtime.cudaMalloc(-1)
    bench.close()
