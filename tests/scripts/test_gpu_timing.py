"""How the GPU check times: the library and PyTorch are stood in for by objects that count and fail on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from cpspec_trt.errors import EngineError
from scripts.gpu import timing
from scripts.gpu.timing import REPLAYS, WARM_UP, Device, measure
from scripts.gpu.workload import Twin, Work, Workload


class Tools:
    """Replays that take 1, 2, 3 … ms in the order of all captures."""

    def __init__(self) -> None:
        self.captured: list[int] = []
        self.prefetched = 0

    def prefetch(self, memory: int, size: int) -> None:
        self.prefetched += 1

    def graph_times(self, enqueue: Callable[[], None], replays: int) -> np.ndarray:
        enqueue()
        self.captured.append(replays)
        return np.arange(1, replays + 1, dtype=np.float32)


class Torch:
    """PyTorch with a clock of its own; a graph is captured unless the work refuses, and drawing then breaks."""

    def __init__(self) -> None:
        self.capturing = self.broken = False
        self.now = 0.0
        self.cuda = SimpleNamespace(
            Stream=object,
            stream=lambda side: self._Context(self),
            synchronize=lambda: None,
            CUDAGraph=lambda: SimpleNamespace(replay=lambda: self.spend(1.0)),
            graph=lambda graph: self._Context(self, True),
            Event=lambda enable_timing: self._Event(self),
        )

    def spend(self, milliseconds: float) -> None:
        self.now += milliseconds

    def draw(self) -> None:
        if self.capturing:
            self.broken = True
            raise RuntimeError("not permitted when stream is capturing\nmore about it")
        if self.broken:
            raise RuntimeError("offset increment outside graph capture")
        self.spend(5.0)

    class _Context:
        def __init__(self, torch: Torch, capture: bool = False) -> None:
            self._torch, self._capture = torch, capture

        def __enter__(self) -> None:
            self._torch.capturing = self._capture

        def __exit__(self, *fault: object) -> None:
            self._torch.capturing = False

    class _Event:
        def __init__(self, torch: Torch) -> None:
            self._torch = torch

        def record(self) -> None:
            self.at = self._torch.now

        def synchronize(self) -> None:
            """Nothing is left to wait for."""

        def elapsed_time(self, end: Any) -> float:
            return float(end.at - self.at)


def _device(tools: Tools, enqueue: Callable[[], None] = lambda: None) -> Device:
    return Device(tools, SimpleNamespace(blocks=[(1, 16), (2, 16)]), SimpleNamespace(), enqueue)


def _plain(torch: Torch) -> Work:
    return lambda: torch.spend(2.0)


def _drawing(torch: Torch) -> Work:
    return torch.draw


def _work(name: str, twin: Twin | None = None, run: Callable[[Any], None] = lambda kernels: None) -> Workload:
    return Workload(name, "1 × 8", 64, run, twin or Twin(_plain))


def test_a_kernel_is_timed_by_the_median_of_its_replays_after_the_warm_up() -> None:
    tools = Tools()
    (line,) = measure(_device(tools), [_work("filter")], None)
    assert tools.captured == [WARM_UP + REPLAYS]
    assert line.milliseconds == WARM_UP + (1 + REPLAYS) / 2
    assert line.reference is None
    assert tools.prefetched == 2


def test_a_state_is_put_back_before_calls_have_used_up_its_room() -> None:
    tools, left = Tools(), [85]

    def reset() -> None:
        left[0] = 85

    work = Workload("accept_commit", "1 × 8", 64, lambda kernels: None, Twin(_plain), reset, 85)
    (line,) = measure(_device(tools), [work], None)
    assert tools.captured == [85] * 4  # of each 65 count
    assert line.milliseconds is not None


def test_what_fails_is_said_in_its_line_and_costs_no_other() -> None:
    def refuse(kernels: object) -> None:
        raise EngineError("device: an illegal address")

    def works() -> Iterator[Workload]:
        yield _work("first")
        yield _work("second", run=refuse)
        yield _work("third")
        raise EngineError("device: no memory")

    lines = measure(_device(Tools()), works(), Torch())
    assert [line.fault for line in lines] == [None, "device: an illegal address", None, "device: no memory"]
    assert [line.milliseconds is None for line in lines] == [False, True, False, True]
    assert [line.reference is None for line in lines] == [False, False, False, True]


def test_pytorch_is_timed_by_graph_where_it_can_be_captured_and_call_by_call_where_not() -> None:
    works = [_work("draw", Twin(_drawing, draws=True)), _work("argmax"), _work("draft", Twin(_drawing, draws=True))]
    draw, argmax, draft = (line.reference for line in measure(_device(Tools()), works, Torch()))
    assert draw is not None and argmax is not None and draft is not None  # noqa: PT018
    assert (argmax.milliseconds, argmax.how, argmax.uncaptured) == (1.0, "graph", None)
    assert (draw.milliseconds, draw.how) == (5.0, "calls")
    assert draw.uncaptured == "not permitted when stream is capturing"
    assert (draft.milliseconds, draft.how) == (5.0, "calls")  # although the capture before broke all drawing


def test_pytorch_that_cannot_do_a_work_at_all_is_said_in_its_line() -> None:
    def refuse(torch: Torch) -> Work:
        raise RuntimeError("out of memory\nmore about it")

    first, second = timing.time_twins(Torch(), [Twin(refuse), Twin(_plain)])
    assert (first.milliseconds, first.fault) == (None, "out of memory")
    assert second.how == "graph"
