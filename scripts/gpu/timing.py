"""Median times of the kernels on the device, and of the same work in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from cpspec_trt.errors import CpspecError
from scripts.gpu.report import NONE, Measurement, Reference
from scripts.gpu.workload import Twin, Work, Workload

REPLAYS, WARM_UP = 200, 20


class Tools(Protocol):
    """What measuring needs of ``tests.plugins.device.DeviceTools``."""

    def prefetch(self, memory: int, size: int) -> None:
        """Move managed memory to the device."""

    def graph_times(self, enqueue: Callable[[], None], replays: int) -> np.ndarray:
        """Milliseconds of each replay."""


class Memory(Protocol):
    """What measuring needs of ``tests.plugins.device.SharedMemory``."""

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Address and size of everything given out."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where kernels are timed.

    Attributes:
        kernels: ``SharedKernels`` of the CUDA library.
        enqueue: makes the call that the kernels made last once more, without waiting for it.
    """

    tools: Tools
    memory: Memory
    kernels: Any
    enqueue: Callable[[], None]


def kernel_milliseconds(device: Device, work: Workload) -> float:
    """Median of a call's graph replays; its state is put back before it has no room left.

    Raises:
        CpspecError: the call or the device failed.
    """
    work.run(device.kernels)
    times: list[float] = []
    while len(times) < REPLAYS:
        if work.reset is not None:
            work.reset()
        for block in device.memory.blocks:
            device.tools.prefetch(*block)
        replays = min(work.calls, WARM_UP + REPLAYS)
        times += device.tools.graph_times(device.enqueue, replays)[WARM_UP:].tolist()
    return float(np.median(times[:REPLAYS]))


def measure(device: Device, works: Iterable[Workload], torch: Any) -> list[Measurement]:
    """The time of every workload; what fails is said in its line and costs no other line.

    Args:
        device: where.
        works: what.
        torch: the module, or None where it has no CUDA.
    """
    measured: list[Measurement] = []
    twins: list[Twin] = []
    remaining = iter(works)
    while True:
        try:
            work = next(remaining)
        except StopIteration:
            break
        except CpspecError as fault:  # a device that has failed gives no memory
            measured.append(Measurement("the operations after these", NONE, 0, fault=str(fault)))
            break
        line = Measurement(work.name, work.size, work.size_bytes)
        try:
            line = replace(line, milliseconds=kernel_milliseconds(device, work))
        except CpspecError as fault:
            line = replace(line, fault=str(fault))
        measured.append(line)
        twins.append(work.twin)
    if torch is None:
        return measured
    references = time_twins(torch, twins)
    timed = [replace(line, reference=each) for line, each in zip(measured, references, strict=False)]
    return timed + measured[len(timed) :]


def time_twins(torch: Any, twins: Sequence[Twin]) -> list[Reference]:
    """The same work in PyTorch: graph replays where it can be captured, single calls where not.

    A capture that fails can leave PyTorch's random numbers unusable, so every work is first timed call by call, and
    those that draw are captured last.
    """
    works: list[Work | None] = []
    references: list[Reference] = []
    for twin in twins:
        try:
            work = twin.prepare(torch)
            references.append(Reference(_median(torch, work), "calls"))
            works.append(work)
        except RuntimeError as fault:
            references.append(Reference(fault=_first_line(fault)))
            works.append(None)
    for index in sorted(range(len(twins)), key=lambda index: twins[index].draws):
        if (captured_work := works[index]) is not None:
            try:
                references[index] = Reference(_median(torch, _captured(torch, captured_work)), "graph")
            except RuntimeError as fault:
                references[index] = replace(references[index], uncaptured=_first_line(fault))
    return references


def _captured(torch: Any, work: Work) -> Work:
    """Replays of a CUDA graph of the work."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    replay: Work = graph.replay
    return replay


def _median(torch: Any, work: Work) -> float:
    """Milliseconds between events around each call."""
    times = []
    for _ in range(WARM_UP + REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return float(np.median(times[WARM_UP:]))


def _first_line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0]
