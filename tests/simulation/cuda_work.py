"""Streams, events and graphs of the CUDA stand-in (see ``cuda_runtime``)."""

# ruff: noqa: N802
from __future__ import annotations

from typing import SupportsInt

from tests.simulation.cuda_arguments import OK, Result, driven, enumerated, handle_of, integer
from tests.simulation.cuda_types import (
    cudaError_t,
    cudaEvent_t,
    cudaEventDisableTiming,
    cudaGraph_t,
    cudaGraphExec_t,
    cudaStream_t,
    cudaStreamCaptureMode,
    cudaStreamCaptureStatus,
    cudaStreamNonBlocking,
)
from tests.simulation.device import current
from tests.simulation.streams import Event, Graph, Stream, Work

# ---- streams


@driven(results=1)
def cudaStreamCreate() -> Result:
    device = current()
    return OK, cudaStream_t(device.add(device.streams, Stream(blocking=True)))


@driven(results=1)
def cudaStreamCreateWithFlags(flags: int) -> Result:
    device = current()
    blocking = not integer(flags) & cudaStreamNonBlocking
    return OK, cudaStream_t(device.add(device.streams, Stream(blocking)))


@driven()
def cudaStreamDestroy(stream: SupportsInt | None) -> Result:
    device = current()
    found = device.take(device.streams, handle_of(stream), "cudaStreamDestroy")
    if found.capture is not None:
        raise device.fault("cudaStreamDestroy: the stream is being captured")
    device.drain(found)
    device.take(device.streams, handle_of(stream), "cudaStreamDestroy", remove=True)
    return (OK,)


@driven()
def cudaStreamSynchronize(stream: SupportsInt | None) -> Result:
    device = current()
    device.forbid_in_capture("cudaStreamSynchronize")
    handle = handle_of(stream)
    if handle == 0:
        raise device.fault("cudaStreamSynchronize: nothing of ours is on the default stream")
    found = device.take(device.streams, handle, "cudaStreamSynchronize")
    device.counts.synchronisations += 1
    device.drain(found)
    return (OK,)


@driven()
def cudaStreamQuery(stream: SupportsInt | None) -> Result:
    """One piece of work runs per call, so that a loop that polls comes to an end."""
    device = current()
    device.forbid_in_capture("cudaStreamQuery")
    found = device.take(device.streams, handle_of(stream), "cudaStreamQuery")
    device.advance(found)
    return (cudaError_t.cudaErrorNotReady if found.pending else OK,)


@driven()
def cudaStreamWaitEvent(stream: SupportsInt | None, event: SupportsInt, flags: int) -> Result:
    device = current()
    waited = device.take(device.events, handle_of(event), "cudaStreamWaitEvent")
    source, mark = waited.stream, waited.mark
    integer(flags)

    def run() -> None:
        if source is not None and mark is not None and mark in source.pending:
            device.drain(source, mark)

    device.enqueue(handle_of(stream), Work("cudaStreamWaitEvent", run))
    return (OK,)


# ---- events


@driven(results=1)
def cudaEventCreate() -> Result:
    device = current()
    return OK, cudaEvent_t(device.add(device.events, Event(timed=True)))


@driven(results=1)
def cudaEventCreateWithFlags(flags: int) -> Result:
    device = current()
    return OK, cudaEvent_t(device.add(device.events, Event(timed=not integer(flags) & cudaEventDisableTiming)))


def _event(event: SupportsInt, what: str) -> Event:
    device = current()
    return device.take(device.events, handle_of(event), what)


@driven()
def cudaEventRecord(event: SupportsInt, stream: SupportsInt | None) -> Result:
    current().record(_event(event, "cudaEventRecord"), handle_of(stream))
    return (OK,)


@driven()
def cudaEventSynchronize(event: SupportsInt) -> Result:
    device = current()
    device.forbid_in_capture("cudaEventSynchronize")
    device.counts.synchronisations += 1
    device.reach(_event(event, "cudaEventSynchronize"), "cudaEventSynchronize")
    return (OK,)


@driven()
def cudaEventQuery(event: SupportsInt) -> Result:
    device = current()
    device.forbid_in_capture("cudaEventQuery")
    found = _event(event, "cudaEventQuery")
    if found.captured:
        raise device.fault("cudaEventQuery: the event was recorded into a graph")
    if found.stream is not None and found.done_at is None:
        device.advance(found.stream)
        return (OK if found.done_at is not None else cudaError_t.cudaErrorNotReady,)
    return (OK,)


@driven(results=1)
def cudaEventElapsedTime(start: SupportsInt, end: SupportsInt) -> Result:
    first, second = _event(start, "cudaEventElapsedTime"), _event(end, "cudaEventElapsedTime")
    if not (first.timed and second.timed) or first.mark is None or second.mark is None:
        raise current().fault("cudaEventElapsedTime: an event that keeps no time, or was never recorded")
    if first.done_at is None or second.done_at is None:
        return cudaError_t.cudaErrorNotReady, None
    return OK, (second.done_at - first.done_at) * 1e3


@driven()
def cudaEventDestroy(event: SupportsInt) -> Result:
    device = current()
    device.take(device.events, handle_of(event), "cudaEventDestroy", remove=True)
    return (OK,)


# ---- graphs


@driven()
def cudaStreamBeginCapture(stream: SupportsInt | None, mode: cudaStreamCaptureMode) -> Result:
    relaxed = enumerated(mode, cudaStreamCaptureMode) == cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
    current().begin_capture(handle_of(stream), relaxed=relaxed)
    return (OK,)


@driven(results=1)
def cudaStreamEndCapture(stream: SupportsInt | None) -> Result:
    return OK, cudaGraph_t(current().end_capture(handle_of(stream)))


@driven(results=1)
def cudaStreamIsCapturing(stream: SupportsInt | None) -> Result:
    device = current()
    found = device.take(device.streams, handle_of(stream), "cudaStreamIsCapturing")
    active = found.capture is not None
    return OK, cudaStreamCaptureStatus(int(active))


@driven(results=1)
def cudaGraphInstantiate(graph: SupportsInt, flags: int) -> Result:
    device = current()
    integer(flags)
    found = device.take(device.graphs, handle_of(graph), "cudaGraphInstantiate")
    return OK, cudaGraphExec_t(device.add(device.executables, Graph(list(found.nodes))))


@driven()
def cudaGraphUpload(graphExec: SupportsInt, stream: SupportsInt | None) -> Result:
    device = current()
    device.forbid_in_capture("cudaGraphUpload")
    device.take(device.executables, handle_of(graphExec), "cudaGraphUpload")
    device.take(device.streams, handle_of(stream), "cudaGraphUpload")
    return (OK,)


@driven()
def cudaGraphLaunch(graphExec: SupportsInt, stream: SupportsInt | None) -> Result:
    current().launch(handle_of(graphExec), handle_of(stream))
    return (OK,)


@driven()
def cudaGraphExecDestroy(graphExec: SupportsInt) -> Result:
    device = current()
    device.take(device.executables, handle_of(graphExec), "cudaGraphExecDestroy", remove=True)
    return (OK,)


@driven()
def cudaGraphDestroy(graph: SupportsInt) -> Result:
    device = current()
    device.take(device.graphs, handle_of(graph), "cudaGraphDestroy", remove=True)
    return (OK,)
