"""Memory and copies of the CUDA stand-in (see ``cuda_runtime``)."""

# ruff: noqa: N802
from __future__ import annotations

import ctypes
from typing import Any, SupportsInt

import numpy as np

from tests.simulation.cuda_arguments import OK, Result, address_of, driven, enumerated, handle_of, integer
from tests.simulation.cuda_types import cudaError_t, cudaMemcpyKind
from tests.simulation.device import current
from tests.simulation.memory import Allocation
from tests.simulation.streams import Work

# ---- memory


def _allocated(kind: Any, size: int) -> Result:
    size = integer(size)
    if size < 0:
        raise OverflowError("can't convert negative value to size_t")
    if size == 0:
        return OK, 0
    address = current().allocate(kind, size)
    return (OK, address) if address is not None else (cudaError_t.cudaErrorMemoryAllocation, None)


@driven(results=1)
def cudaMalloc(size: int) -> Result:
    return _allocated("device", size)


@driven(results=1)
def cudaHostAlloc(size: int, flags: int) -> Result:
    integer(flags)
    return _allocated("pinned", size)


@driven(results=1)
def cudaMallocHost(size: int) -> Result:
    return _allocated("pinned", size)


@driven()
def cudaFree(devPtr: Any) -> Result:
    if address := address_of(devPtr):
        current().free("device", address)
    return (OK,)


@driven()
def cudaFreeHost(ptr: Any) -> Result:
    if address := address_of(ptr):
        current().free("pinned", address)
    return (OK,)


# ---- copies


class _Side:
    """One side of a copy: device memory, pinned memory, or pageable memory of the host."""

    def __init__(self, what: str, pointer: Any, size: int) -> None:
        device = current()
        self.address = address_of(pointer)
        if self.address == 0 and size:
            raise device.fault(f"{what}: a null pointer")
        found = device.find(self.address)
        self.allocation: Allocation | None = found and device.live_at(what, self.address, size)
        self.kind = found.kind if found is not None else "pageable"
        if found is None and not isinstance(pointer, int | np.integer | None) and memoryview(pointer).nbytes < size:
            raise device.fault(f"{what}: {size} bytes of a buffer of {memoryview(pointer).nbytes}")

    @property
    def on_device(self) -> bool:
        return self.kind == "device"


_DIRECTIONS = {
    cudaMemcpyKind.cudaMemcpyHostToHost: (False, False),
    cudaMemcpyKind.cudaMemcpyHostToDevice: (False, True),
    cudaMemcpyKind.cudaMemcpyDeviceToHost: (True, False),
    cudaMemcpyKind.cudaMemcpyDeviceToDevice: (True, True),
}


def _sides(what: str, dst: Any, dst_size: int, src: Any, src_size: int, kind: cudaMemcpyKind) -> tuple[_Side, _Side]:
    kind = enumerated(kind, cudaMemcpyKind)
    target, source = _Side(what, dst, dst_size), _Side(what, src, src_size)
    expected = _DIRECTIONS.get(kind)
    if expected is not None and expected != (source.on_device, target.on_device):
        raise current().fault(f"{what}: {kind.name} from {source.kind} to {target.kind} memory")
    return target, source


Rows = tuple[int, int, int, int]  # target pitch, source pitch, bytes of a row, rows


def _move(target: int, source: int, rows: Rows) -> None:
    target_pitch, source_pitch, width, height = rows
    for row in range(height):
        ctypes.memmove(target + row * target_pitch, source + row * source_pitch, width)


def _copy_now(what: str, target: _Side, source: _Side, rows: Rows) -> None:
    """A copy that waits, on the default stream: streams made without ``cudaStreamNonBlocking`` are done first."""
    device = current()
    device.forbid_in_capture(what)
    device.drain_all(only_blocking=True)
    device.counts.copies += 1
    device.counts.bytes += rows[2] * rows[3]
    device.counts.synchronisations += 1
    with device.accessible():
        _move(target.address, source.address, rows)


def _copy_later(what: str, target: _Side, source: _Side, rows: Rows, stream: SupportsInt | None) -> None:
    device = current()
    handle = handle_of(stream)
    pageable = "pageable" in (target.kind, source.kind)
    if pageable and handle and device.take(device.streams, handle, what).capture is not None:
        raise device.fault(f"{what}: pageable memory is forbidden while a stream is captured; use pinned memory")
    address = source.address
    staged = None
    if source.kind == "pageable":  # CUDA has read it when the call returns
        size = (rows[3] - 1) * rows[1] + rows[2] if rows[3] else 0
        staged = np.frombuffer(ctypes.string_at(address, size), np.uint8)
        address = int(staged.ctypes.data)

    def run(staged: np.ndarray | None = staged) -> None:
        _move(target.address, address, rows)

    def count() -> None:
        device.counts.copies += 1
        device.counts.bytes += rows[2] * rows[3]

    touched = tuple(side.allocation for side in (target, source) if side.allocation is not None)
    device.enqueue(handle, Work(what, run, touched), count)
    if target.kind == "pageable":  # and has written it
        device.counts.synchronisations += 1
        device.drain(device.streams[handle])


def _flat(count: int) -> Rows:
    return 0, 0, count, 1


def _pitched(what: str, dpitch: int, spitch: int, width: int, height: int) -> tuple[Rows, int, int]:
    """Rows of a two-dimensional copy, and the bytes that it spans on either side."""
    rows = (integer(dpitch), integer(spitch), integer(width), integer(height))
    if width > min(rows[0], rows[1]):
        raise current().fault(f"{what}: a row of {width} bytes is wider than a pitch")
    spans = [(rows[3] - 1) * pitch + rows[2] if rows[3] else 0 for pitch in rows[:2]]
    return rows, spans[0], spans[1]


@driven()
def cudaMemcpy(dst: Any, src: Any, count: int, kind: cudaMemcpyKind) -> Result:
    count = integer(count)
    target, source = _sides("cudaMemcpy", dst, count, src, count, kind)
    _copy_now("cudaMemcpy", target, source, _flat(count))
    return (OK,)


@driven()
def cudaMemcpyAsync(dst: Any, src: Any, count: int, kind: cudaMemcpyKind, stream: SupportsInt | None) -> Result:
    count = integer(count)
    target, source = _sides("cudaMemcpyAsync", dst, count, src, count, kind)
    _copy_later("cudaMemcpyAsync", target, source, _flat(count), stream)
    return (OK,)


@driven()
def cudaMemcpy2D(dst: Any, dpitch: int, src: Any, spitch: int, width: int, height: int, kind: cudaMemcpyKind) -> Result:
    rows, to, of = _pitched("cudaMemcpy2D", dpitch, spitch, width, height)
    target, source = _sides("cudaMemcpy2D", dst, to, src, of, kind)
    _copy_now("cudaMemcpy2D", target, source, rows)
    return (OK,)


@driven()
def cudaMemcpy2DAsync(
    dst: Any,
    dpitch: int,
    src: Any,
    spitch: int,
    width: int,
    height: int,
    kind: cudaMemcpyKind,
    stream: SupportsInt | None,
) -> Result:
    rows, to, of = _pitched("cudaMemcpy2DAsync", dpitch, spitch, width, height)
    target, source = _sides("cudaMemcpy2DAsync", dst, to, src, of, kind)
    _copy_later("cudaMemcpy2DAsync", target, source, rows, stream)
    return (OK,)


@driven()
def cudaMemset(devPtr: Any, value: int, count: int) -> Result:
    device = current()
    device.forbid_in_capture("cudaMemset")
    address, value, count = address_of(devPtr), integer(value), integer(count)
    device.live_at("cudaMemset", address, count)
    device.drain_all(only_blocking=True)
    device.counts.memsets += 1
    with device.accessible():
        ctypes.memset(address, value, count)
    return (OK,)


@driven()
def cudaMemsetAsync(devPtr: Any, value: int, count: int, stream: SupportsInt | None) -> Result:
    device = current()
    address, value, count = address_of(devPtr), integer(value), integer(count)
    found = device.live_at("cudaMemsetAsync", address, count)

    def run() -> None:
        ctypes.memset(address, value, count)

    def note() -> None:
        device.counts.memsets += 1

    device.enqueue(handle_of(stream), Work("cudaMemsetAsync", run, (found,)), note)
    return (OK,)
