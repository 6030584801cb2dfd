"""The simulated device: memory, streams, events and graphs, with every rule of their use checked."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tests.simulation.counts import Counts
from tests.simulation.faults import FaultLog, SimulationFault, caller
from tests.simulation.memory import Allocation, Arena, Kind
from tests.simulation.streams import Capture, Event, Graph, Lifetime, Stream, Work

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """What is simulated.

    Attributes:
        memory: bytes of device memory.
        capability: compute capability.
        driver: False where no driver is installed.
        devices: how many there are; 0 is a driver without a device.
        name: of the device.
    """

    memory: int = 1 << 30
    capability: tuple[int, int] = (9, 0)
    driver: bool = True
    devices: int = 1
    name: str = "simulated GPU"


class SimulatedDevice:
    """One device of one process.

    Attributes:
        counts: what was asked of it.
        reserved: device memory that TensorRT holds, by lifetime of its owner.
    """

    def __init__(self, settings: DeviceSettings) -> None:
        self.settings = settings
        self.log = FaultLog()
        self.counts = Counts()
        self.reserved: dict[Lifetime, tuple[int, str]] = {}
        self._arenas: dict[Kind, Arena] = {"device": Arena("device", self.log), "pinned": Arena("pinned", self.log)}
        self._handles = itertools.count(0x51000000, 16)
        self.streams: dict[int, Stream] = {}
        self.events: dict[int, Event] = {}
        self.graphs: dict[int, Graph] = {}
        self.executables: dict[int, Graph] = {}

    def fault(self, message: str) -> SimulationFault:
        """A misuse, to be raised."""
        return self.log.add(message)

    # ---- memory

    def live(self, kind: Kind) -> list[Allocation]:
        """Allocations not freed yet."""
        return list(self._arenas[kind].live.values())

    def live_bytes(self, kind: Kind) -> int:
        """Their bytes."""
        return self._arenas[kind].live_bytes

    @property
    def used(self) -> int:
        """Bytes of device memory in use, those of TensorRT included."""
        return self.live_bytes("device") + sum(size for size, _ in self.reserved.values())

    def allocate(self, kind: Kind, size: int) -> int | None:
        """Address of new memory, or None where it does not fit."""
        self.forbid_in_capture(f"an allocation of {kind} memory", unless_relaxed=True)
        if kind == "device" and self.used + size > self.settings.memory:
            return None
        self.counts.allocations += 1
        return self._arenas[kind].allocate(size).address

    def reserve(self, size: int, owner: Lifetime) -> bool:
        """Count memory that TensorRT takes for itself; False where it does not fit."""
        if self.used + size > self.settings.memory:
            return False
        self.reserved[owner] = (size, caller())
        return True

    def free(self, kind: Kind, address: int) -> None:
        """Free memory; waits for the device first, as CUDA does."""
        what = "cudaFree" if kind == "device" else "cudaFreeHost"
        self.forbid_in_capture(what, unless_relaxed=True)
        found = self.find(address)
        if found is None or found.kind != kind or found.address != address:
            raise self.fault(f"{what}: {address:#x} is not the start of {kind} memory")
        if not found.live:
            raise self.fault(f"{what}: {found} is freed twice")
        self.drain_all()
        self._arenas[kind].free(found)

    def find(self, address: int) -> Allocation | None:
        """The allocation around an address, live or not; None where the simulation never gave it out."""
        return next((found for arena in self._arenas.values() if (found := arena.at(address)) is not None), None)

    def live_at(self, what: str, address: int, size: int) -> Allocation:
        """The live allocation that holds ``size`` bytes at an address.

        Raises:
            SimulationFault: there is none.
        """
        found = self.find(address)
        if found is None:
            raise self.fault(f"{what}: the address {address:#x} lies in no memory that the device can reach")
        if not found.live:
            raise self.fault(f"{what}: use after free: {found}")
        if not (found.address <= address and address + size <= found.end):
            offset = address - found.address
            raise self.fault(f"{what}: {size} bytes at offset {offset} do not fit into {found}")
        return found

    @contextmanager
    def accessible(self) -> Iterator[None]:
        """Let the host's code, standing in for the device, touch device memory."""
        with self._arenas["device"].opened():
            yield

    # ---- handles

    def add(self, table: dict[int, T], value: T) -> int:
        """A new handle."""
        handle = next(self._handles)
        table[handle] = value
        return handle

    def take(self, table: dict[int, T], handle: int, what: str, *, remove: bool = False) -> T:
        """The object behind a handle.

        Raises:
            SimulationFault: it never existed, is destroyed, or is of another kind.
        """
        if handle not in table:
            raise self.fault(f"{what}: the handle {handle:#x} is not alive or of another kind")
        return table.pop(handle) if remove else table[handle]

    # ---- queues

    def enqueue(self, handle: int, work: Work, count: Callable[[], None] | None = None) -> None:
        """Put work into a stream, or into the graph that the stream records.

        Args:
            handle: of the stream.
            work: is not run before somebody waits for it.
            count: called where the work is not recorded.
        """
        if handle == 0:
            raise self.fault(f"{work.what}: the default stream waits for everything; use a stream of your own")
        stream = self.take(self.streams, handle, work.what)
        missing = work.missing()
        if missing is not None:
            raise self.fault(f"{work.what}: {missing}")
        if stream.capture is not None:
            stream.capture.nodes.append(work)
            self.counts.captured += 1
            return
        if count is not None:
            count()
        stream.pending.append(work)

    def drain(self, stream: Stream, until: Work | None = None) -> None:
        """Run the work of a stream in order, all of it or up to and including one piece."""
        touched: dict[Allocation, list[str]] = {}
        with self.accessible():
            while stream.pending:
                work = stream.pending.popleft()
                self._run(work, touched)
                if work is until:
                    break
            for found, by in touched.items():
                self._arenas[found.kind].check_fences(found, ", ".join(dict.fromkeys(by)))

    def drain_all(self, *, only_blocking: bool = False) -> None:
        """Run the work of every stream."""
        for stream in list(self.streams.values()):
            if stream.blocking or not only_blocking:
                self.drain(stream)

    def advance(self, stream: Stream) -> None:
        """Run one piece of work."""
        if stream.pending:
            self.drain(stream, stream.pending[0])

    def _run(self, work: Work, touched: dict[Allocation, list[str]]) -> None:
        missing = work.missing()
        if missing is not None:
            raise self.fault(f"{work.what} (enqueued at {work.origin}): {missing} before it ran")
        for node in work.nodes:
            self._run(node, touched)
        work.run()
        for found in work.touches:
            touched.setdefault(found, []).append(work.what)

    # ---- graphs

    def forbid_in_capture(self, what: str, *, unless_relaxed: bool = False) -> None:
        """Fail where a stream is recording."""
        for stream in self.streams.values():
            if stream.capture is not None and not (unless_relaxed and stream.capture.relaxed):
                raise self.fault(f"{what} is forbidden while a stream is captured")

    def begin_capture(self, handle: int, *, relaxed: bool) -> None:
        """Record what is enqueued on a stream from now on."""
        if handle == 0:
            raise self.fault("cudaStreamBeginCapture: the default stream cannot be captured")
        stream = self.take(self.streams, handle, "cudaStreamBeginCapture")
        self.forbid_in_capture("cudaStreamBeginCapture")
        stream.capture = Capture(relaxed)

    def end_capture(self, handle: int) -> int:
        """Handle of the graph that was recorded."""
        stream = self.take(self.streams, handle, "cudaStreamEndCapture")
        if stream.capture is None:
            raise self.fault("cudaStreamEndCapture: the stream is not being captured")
        nodes, stream.capture = stream.capture.nodes, None
        return self.add(self.graphs, Graph(nodes))

    def launch(self, executable: int, handle: int) -> None:
        """Enqueue a graph."""
        self.forbid_in_capture("cudaGraphLaunch")
        graph = self.take(self.executables, executable, "cudaGraphLaunch")
        for node in graph.nodes:
            missing = node.missing()
            if missing is not None:
                raise self.fault(f"cudaGraphLaunch: {node.what}, recorded at {node.origin}: {missing}")

        def replayed() -> None:
            self.counts.replayed += len(graph.nodes)

        self.enqueue(handle, Work("cudaGraphLaunch", replayed, nodes=tuple(graph.nodes)), self._count_graph)

    def _count_graph(self) -> None:
        self.counts.graph_launches += 1

    # ---- events

    def record(self, event: Event, handle: int) -> None:
        """Put the event's mark into a stream."""
        stream = self.take(self.streams, handle, "cudaEventRecord")

        def reach() -> None:
            event.done_at = time.perf_counter()

        event.stream, event.mark = stream, Work("cudaEventRecord", reach)
        event.captured, event.done_at = stream.capture is not None, None
        self.enqueue(handle, event.mark)

    def reach(self, event: Event, what: str) -> None:
        """Run a stream up to an event's mark; an event that was never recorded is reached at once."""
        if event.captured:
            raise self.fault(f"{what}: the event was recorded into a graph")
        if event.stream is not None and event.done_at is None:
            self.drain(event.stream, event.mark)

    # ---- the end

    def leaks(self) -> list[str]:
        """What the product left behind."""
        found = [str(each) for kind in ("device", "pinned") for each in self.live(kind)]
        found += [f"{size} bytes of {owner.name}, held since {where}" for owner, (size, where) in self.reserved.items()]
        for name, table in (("a stream", self.streams), ("an event", self.events)):
            found += [f"{name} created at {each.origin}" for each in table.values()]
        for name, graphs in (("a graph", self.graphs), ("an executable graph", self.executables)):
            found += [f"{name} created at {each.origin}" for each in graphs.values()]
        return found

    def close(self) -> None:
        """Give the memory back to the system."""
        for arena in self._arenas.values():
            arena.release()


_current: list[SimulatedDevice] = []


def current() -> SimulatedDevice:
    """The device that the stand-in modules work on."""
    if not _current:
        raise RuntimeError("a stand-in module is used outside simulated()")
    return _current[-1]


@contextmanager
def installed(device: SimulatedDevice) -> Iterator[None]:
    """Make a device the current one."""
    _current.append(device)
    try:
        yield
    finally:
        _current.remove(device)
