"""A captured graph does what the calls would have done, as often as it is launched, and everything is counted."""

from __future__ import annotations

from ctypes import byref

import numpy as np
import pytest

from cpspec_trt.errors import UsageError
from cpspec_trt.kernels.device_library import open_device_library
from cpspec_trt.kernels.native_structs import NoiseRowsStruct
from tests.simulation.counts import Counts
from tests.simulation.faults import SimulationFault
from tests.simulation.simulation import Simulation
from tests.simulation.workbench import Workbench

ROWS, WORDS = 3, 70


class Draws:
    """Brings probabilities to the device, draws a code from each row there, and brings the codes back."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.library = open_device_library()
        self.probabilities = bench.pinned(4 * ROWS * WORDS)
        self.on_device = bench.device(4 * ROWS * WORDS)
        self._codes, self._result = bench.device(8 * ROWS), bench.pinned(8 * ROWS)
        self.noise = NoiseRowsStruct(bench.device(8 * ROWS), bench.device(4 * ROWS), bench.device(4 * ROWS))
        for address, size in ((self.noise.seeds, 8), (self.noise.streams, 4), (self.noise.frames, 4)):
            bench.runtime.cudaMemset(address, 0, size * ROWS)

    def certain(self, codes: list[int]) -> None:
        """Rows that leave one code to draw."""
        rows = self.bench.view(self.probabilities, ROWS * WORDS).reshape(ROWS, WORDS)
        rows[:] = 0
        rows[np.arange(ROWS), codes] = 1

    def enqueue(self) -> None:
        """Everything."""
        bench, kinds = self.bench, self.bench.kinds
        size = 4 * ROWS * WORDS
        upload = (self.on_device, self.probabilities, size, kinds.cudaMemcpyHostToDevice, bench.stream)
        bench.runtime.cudaMemcpyAsync(*upload)
        self.draw()
        bench.download(self._result, self._codes, 8 * ROWS)

    def draw(self, rows: int = ROWS) -> None:
        """The kernel alone."""
        arguments = (self.on_device, rows, WORDS, byref(self.noise), self._codes)
        self.library.call("draw", *arguments, stream=int(self.bench.stream))

    def codes(self) -> list[int]:
        """What came back."""
        self.bench.wait()
        found: list[int] = self.bench.view(self._result, 2 * ROWS).view(np.int64).tolist()
        return found


@pytest.fixture
def draws(simulation: Simulation) -> Draws:
    return Draws(Workbench(simulation))


def test_a_kernel_runs_in_stream_order_over_what_the_copies_before_it_brought(draws: Draws) -> None:
    draws.certain([5, 60, 7])
    draws.enqueue()
    assert draws.codes() == [5, 60, 7]
    draws.bench.close()


def test_a_replayed_graph_equals_the_calls_it_was_captured_from(draws: Draws) -> None:
    graph = draws.bench.graph(draws.enqueue)
    for codes in ([1, 2, 3], [9, 8, 69], [0, 0, 0]):
        draws.certain(codes)
        draws.bench.runtime.cudaGraphLaunch(graph, draws.bench.stream)
        assert draws.codes() == codes
    draws.bench.runtime.cudaGraphExecDestroy(graph)
    draws.bench.close()


def test_a_capture_runs_nothing(draws: Draws) -> None:
    draws.certain([1, 2, 3])
    graph = draws.bench.graph(draws.enqueue)
    assert draws.codes() != [1, 2, 3]
    draws.bench.runtime.cudaGraphExecDestroy(graph)
    draws.bench.close()


def test_a_structure_is_read_at_the_call(draws: Draws) -> None:
    draws.certain([5, 60, 7])
    draws.enqueue()
    draws.noise.seeds = draws.noise.streams = draws.noise.frames = 0
    assert draws.codes() == [5, 60, 7]
    draws.bench.close()


def test_everything_is_counted_where_it_is_asked_for(draws: Draws) -> None:
    bench, counts = draws.bench, draws.bench.simulation.counts
    before, kernels = counts.copy(), draws.library.launches
    draws.certain([1, 2, 3])
    draws.enqueue()
    size = 4 * ROWS * WORDS + 8 * ROWS
    assert counts - before == Counts(launches=1, copies=2, bytes=size)
    assert draws.library.launches == kernels + 1
    before = counts.copy()
    graph = bench.graph(draws.enqueue)
    assert counts - before == Counts(captured=3)
    before = counts.copy()
    for _ in range(2):
        bench.runtime.cudaGraphLaunch(graph, bench.stream)
    bench.wait()
    assert counts - before == Counts(graph_launches=2, replayed=6, synchronisations=1)
    bench.runtime.cudaGraphExecDestroy(graph)
    bench.close()


def test_wrong_arguments_of_a_kernel_are_refused_at_the_call_as_the_library_refuses_them(draws: Draws) -> None:
    with pytest.raises(UsageError, match="rows"):
        draws.draw(rows=-1)
    draws.bench.close()


def test_a_kernel_over_host_memory_is_a_fault(draws: Draws) -> None:
    draws.on_device = np.zeros((ROWS, WORDS), np.float32).ctypes.data
    with pytest.raises(SimulationFault, match=r"cpspec_draw: probabilities: .* no memory that the device can reach"):
        draws.draw()
    draws.bench.simulation.forgive()


def test_a_field_of_a_structure_that_was_freed_is_a_fault(draws: Draws) -> None:
    draws.bench.free(draws.noise.frames)
    with pytest.raises(SimulationFault, match="noise->frames: use after free"):
        draws.draw()
    draws.bench.simulation.forgive()


def test_a_kernel_on_the_default_stream_is_a_fault(draws: Draws) -> None:
    with pytest.raises(SimulationFault, match="default stream"):
        draws.library.call("draw", draws.on_device, ROWS, WORDS, byref(draws.noise), draws.on_device, stream=0)
    draws.bench.simulation.forgive()


def test_a_kernel_that_writes_behind_its_array_is_a_fault(draws: Draws) -> None:
    short = draws.bench.device(8 * ROWS - 8)
    draws.bench.runtime.cudaMemset(draws.on_device, 0, 4 * ROWS * WORDS)
    arguments = (draws.on_device, ROWS, WORDS, byref(draws.noise), short)
    draws.library.call("draw", *arguments, stream=int(draws.bench.stream))
    with pytest.raises(SimulationFault, match="cpspec_draw: somebody wrote behind 16 bytes of device memory"):
        draws.bench.wait()
    draws.bench.simulation.forgive()
