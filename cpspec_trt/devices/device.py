"""One GPU with one stream: memory, copies, graphs, and a count of what was submitted.

Nothing here waits except ``synchronise`` and what says so. Everything given out is freed by ``close``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from types import TracebackType

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray, PinnedArray, Shape, view_of_memory
from cpspec_trt.devices.cuda import CudaRuntime
from cpspec_trt.errors import EngineError


@dataclass(slots=True)
class Submissions:
    """What was put into the stream.

    Attributes:
        kernels: kernels of the library that ran, those inside replayed graphs included.
        passes: engine passes, likewise.
        copies: copies and fills, likewise.
        graph_launches: graphs replayed.
        direct: kernels, passes and copies submitted one by one, outside a graph.
        synchronisations: waits of the host for the stream.
    """

    kernels: int = 0
    passes: int = 0
    copies: int = 0
    graph_launches: int = 0
    direct: int = 0
    synchronisations: int = 0

    def copy(self) -> Submissions:
        """The counts so far."""
        return Submissions(**self.to_json())

    def since(self, earlier: Submissions) -> Submissions:
        """What was added after ``earlier`` was copied."""
        return Submissions(**{name: count - getattr(earlier, name) for name, count in self.to_json().items()})

    def to_json(self) -> dict[str, int]:
        """Name -> count."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """What a request took of a GPU.

    Attributes:
        submitted: what was put into the stream for it.
        memory_in_use: bytes in use on the GPU when it was done, by whatever runs there.
    """

    submitted: Submissions
    memory_in_use: int

    def to_json(self, frames: int) -> dict[str, object]:
        """Counts of a request of so many frames, in all and per frame."""
        counts = self.submitted.to_json()
        per_frame = {name: count / frames for name, count in counts.items()} if frames else None
        return {"frames": frames, **counts, "per_frame": per_frame}


class Graph:
    """A captured sequence of operations, submitted by one call."""

    def __init__(self, device: Device, executable: object, holds: Submissions) -> None:
        self._device = device
        self._executable = executable
        self._holds = holds

    def launch(self) -> None:
        """Put the whole sequence into the stream.

        Raises:
            EngineError: CUDA refused.
        """
        self._device.replay(self._executable, self._holds)


class Device:
    """A GPU.

    Attributes:
        stream: its stream, an integer.
        submitted: counters, growing.
    """

    def __init__(self, index: int = 0) -> None:
        """Open a GPU.

        Raises:
            EngineError: there is none (see ``cuda.CudaRuntime``).
        """
        runtime = CudaRuntime(index)
        kinds = runtime.api.cudaMemcpyKind
        self._runtime = runtime
        self._to_device, self._to_host = kinds.cudaMemcpyHostToDevice, kinds.cudaMemcpyDeviceToHost
        self._on_device = kinds.cudaMemcpyDeviceToDevice
        self._capture_mode = runtime.api.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self.submitted = Submissions()
        self._written: list[np.ndarray] = []  # what copies may still read
        self.stream = int(runtime.call("cudaStreamCreateWithFlags", runtime.api.cudaStreamNonBlocking))
        self._resources = _Resources(runtime, self.stream)
        self._finalizer = weakref.finalize(self, self._resources.release)

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Wait, then give everything back. Arrays, graphs and engines of this device must not be used after it."""
        self._finalizer()

    def on_close(self, release: Callable[[], None]) -> None:
        """Call ``release`` when the device closes, before its memory is freed; the latest first.

        It must not hold on to the device, which could then never be collected.
        """
        self._resources.closers.append(release)

    # ---- memory

    def array(self, shape: Shape, dtype: np.dtype) -> DeviceArray:
        """A zeroed array on the GPU (zeroed in the stream's order).

        Raises:
            EngineError: there is no room.
        """
        found = DeviceArray(0, dtype, shape)
        address = int(self._runtime.call("cudaMalloc", max(found.nbytes, 1)))
        self._resources.device[address] = found.nbytes
        array = DeviceArray(address, dtype, shape)
        self.clear(array)
        return array

    def pinned(self, shape: Shape, dtype: np.dtype) -> PinnedArray:
        """A zeroed array in page-locked memory.

        Raises:
            EngineError: there is no room.
        """
        size = max(DeviceArray(0, dtype, shape).nbytes, 1)
        address = int(self._runtime.call("cudaHostAlloc", size, self._runtime.api.cudaHostAllocDefault))
        self._resources.pinned[address] = size
        host = view_of_memory(address, dtype, shape)
        host.fill(0)
        return PinnedArray(address, host)

    def uploaded(self, values: np.ndarray, dtype: np.dtype | None = None) -> DeviceArray:
        """A copy of an array of ordinary memory on the GPU, converted to ``dtype``; waits for it.

        Raises:
            EngineError: there is no room.
        """
        array = self.array(values.shape, values.dtype if dtype is None else dtype)
        self.write(array, values)
        self.synchronise()  # tables are large: a converted copy of one must not stay until somebody waits
        return array

    def free(self, array: DeviceArray | PinnedArray) -> None:
        """Give one array back before the device closes; the stream must not use it any more."""
        self._resources.free(array.address)

    # ---- work in the stream

    def write(self, target: DeviceArray, values: np.ndarray) -> None:
        """Copy an array of ordinary memory to the GPU, converted to the target's dtype.

        ``values`` must stay as it is until the next ``synchronise``, and is kept alive that long: CUDA stages such a
        copy only where the GPU cannot read ordinary memory by itself. It cannot be captured.
        """
        values = np.ascontiguousarray(values, target.dtype)
        size = _same_size(target.nbytes, values.nbytes)
        self._written.append(values)
        self._copy(target.address, values.ctypes.data, size, self._to_device)

    def read(self, array: DeviceArray) -> np.ndarray:
        """What an array holds once the stream is done; waits for it."""
        values = np.empty(array.shape, array.dtype)
        self._copy(values.ctypes.data, array.address, array.nbytes, self._to_host)
        self.synchronise()
        return values

    def upload(self, target: DeviceArray, source: PinnedArray) -> None:
        """Copy to the GPU; ``source`` must stay as it is until the stream got there."""
        self._copy(target.address, source.address, _same_size(target.nbytes, source.nbytes), self._to_device)

    def download(self, target: PinnedArray, source: DeviceArray) -> None:
        """Copy from the GPU; ``target`` may be read after the next ``synchronise``."""
        self._copy(target.address, source.address, _same_size(target.nbytes, source.nbytes), self._to_host)

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        """Copy on the GPU."""
        self._copy(target.address, source.address, _same_size(target.nbytes, source.nbytes), self._on_device)

    def copy_into_column(self, target: DeviceArray, column: int, source: DeviceArray) -> None:
        """``target[:, column] = source`` for a target [batch, columns, …] and a source [batch, …]."""
        batch = target.shape[0]
        pitch = target.nbytes // batch
        width = _same_size(pitch // target.shape[1], source.nbytes // batch)
        self._count_copy()
        address = target.address + column * width
        where = (address, pitch, source.address, width, width, batch, self._on_device, self.stream)
        self._runtime.call("cudaMemcpy2DAsync", *where)

    def clear(self, array: DeviceArray) -> None:
        """Fill with zero bytes."""
        if array.nbytes:
            self._count_copy()
            self._runtime.call("cudaMemsetAsync", array.address, 0, array.nbytes, self.stream)

    def synchronise(self) -> None:
        """Wait until the stream is done; a fault of anything in it shows here.

        Raises:
            EngineError: something in the stream failed.
        """
        self.submitted.synchronisations += 1
        self._runtime.call("cudaStreamSynchronize", self.stream)
        self._written.clear()

    def count_kernels(self, number: int) -> None:
        """Count kernels that the caller enqueued."""
        self.submitted.kernels += number
        self.submitted.direct += number

    def count_pass(self) -> None:
        """Count an engine pass that the caller enqueued."""
        self.submitted.passes += 1
        self.submitted.direct += 1

    def work_since(self, earlier: Submissions) -> DeviceWork:
        """What was done after the counters were copied."""
        free, total = self._runtime.call("cudaMemGetInfo")
        return DeviceWork(self.submitted.since(earlier), int(total) - int(free))

    # ---- graphs

    def capture(self, enqueue: Callable[[], None]) -> Graph:
        """Record what ``enqueue`` puts into the stream, without running it.

        Args:
            enqueue: must not allocate, free or wait.

        Raises:
            EngineError: CUDA cannot capture it.
        """
        before = self.submitted.copy()
        call = self._runtime.call
        call("cudaStreamBeginCapture", self.stream, self._capture_mode)
        try:
            enqueue()
        except BaseException:
            self._drop_capture()
            raise
        graph = call("cudaStreamEndCapture", self.stream)
        try:
            executable = call("cudaGraphInstantiate", graph, 0)
        finally:
            call("cudaGraphDestroy", graph)
        self._resources.graphs.append(executable)
        holds = self.submitted.since(before)
        self.submitted = before
        return Graph(self, executable, holds)

    def _drop_capture(self) -> None:
        """Leave the stream usable after a fault, which is told; that CUDA may find more to complain of is not."""
        api = self._runtime.api
        status, graph = api.cudaStreamEndCapture(self.stream)
        if status == api.cudaError_t.cudaSuccess:
            api.cudaGraphDestroy(graph)

    def replay(self, executable: object, holds: Submissions) -> None:
        """Launch an instantiated graph and count what it holds."""
        self._runtime.call("cudaGraphLaunch", executable, self.stream)
        counts = self.submitted
        counts.graph_launches += 1
        counts.kernels += holds.kernels
        counts.passes += holds.passes
        counts.copies += holds.copies

    # ---- times

    def event(self) -> Event:
        """A mark in the stream whose time can be told afterwards."""
        handle = self._runtime.call("cudaEventCreate")
        self._resources.events.append(handle)
        return Event(self._runtime, handle, self.stream)

    def _copy(self, target: int, source: int, size: int, kind: object) -> None:
        if size:
            self._count_copy()
            self._runtime.call("cudaMemcpyAsync", target, source, size, kind, self.stream)

    def _count_copy(self) -> None:
        self.submitted.copies += 1
        self.submitted.direct += 1


class Event:
    """A mark in the stream."""

    def __init__(self, runtime: CudaRuntime, handle: object, stream: int) -> None:
        self._runtime = runtime
        self._handle = handle
        self._stream = stream

    def record(self) -> None:
        """Put the mark behind everything submitted so far."""
        self._runtime.call("cudaEventRecord", self._handle, self._stream)

    def seconds_since(self, earlier: Event) -> float:
        """GPU time between two marks that the stream has passed."""
        return float(self._runtime.call("cudaEventElapsedTime", earlier._handle, self._handle)) / 1000


class _Resources:
    """What a device has given out, freed in an order that is safe: engines, graphs, events, memory, the stream."""

    def __init__(self, runtime: CudaRuntime, stream: int) -> None:
        self._runtime = runtime
        self._stream = stream
        self.closers: list[Callable[[], None]] = []
        self.graphs: list[object] = []
        self.events: list[object] = []
        self.device: dict[int, int] = {}
        self.pinned: dict[int, int] = {}

    def free(self, address: int) -> None:
        if self.device.pop(address, None) is not None:
            self._runtime.call("cudaFree", address)
        elif self.pinned.pop(address, None) is not None:
            self._runtime.call("cudaFreeHost", address)
        else:
            raise EngineError("an array was freed that the device does not own, or a second time")

    def release(self) -> None:
        """Free everything. The first fault is raised once all was tried."""
        call = self._runtime.call
        steps: list[Callable[[], object]] = [partial(call, "cudaStreamSynchronize", self._stream)]
        steps += [partial(call, "cudaGraphExecDestroy", graph) for graph in self.graphs]
        steps += reversed(self.closers)
        steps += [partial(call, "cudaEventDestroy", event) for event in self.events]
        steps += [partial(self.free, address) for address in (*self.device, *self.pinned)]
        steps.append(partial(call, "cudaStreamDestroy", self._stream))
        _all_of(steps)


def _all_of(steps: Iterable[Callable[[], object]]) -> None:
    first: EngineError | None = None
    for step in steps:
        try:
            step()
        except EngineError as fault:
            first = first or fault
    if first is not None:
        raise first


def _same_size(left: int, right: int) -> int:
    if left != right:
        raise EngineError(f"a copy between arrays of {left} and {right} bytes")
    return left
