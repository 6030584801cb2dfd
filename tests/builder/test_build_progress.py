"""Phases of a real build reach the listener, and Ctrl-C ends it, whatever callback it meets."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tensorrt_rtx as trt

from cpspec_trt.builder.build_log import BuildLog
from cpspec_trt.builder.build_progress import BuildListener, Interrupts, SilentListener, monitor
from cpspec_trt.builder.flavour import RTX
from cpspec_trt.errors import EngineError


class Recorder:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str | None, int]] = []
        self.steps: dict[str, int] = {}
        self.running: list[str] = []

    def phase_started(self, name: str, parent: str | None, steps: int) -> None:
        assert parent is None or parent in self.running
        self.started.append((name, parent, steps))
        self.running.append(name)

    def phase_advanced(self, name: str, step: int) -> None:
        assert name in self.running
        self.steps[name] = step

    def phase_finished(self, name: str) -> None:
        self.running.remove(name)


def build(listener: BuildListener, interrupts: Interrupts | None = None) -> Any:
    """The engine of one product, or None."""
    log = BuildLog(trt, RTX, "talker")
    builder = trt.Builder(log.logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    x = network.add_input("x", trt.float32, (4, 4))
    kind = trt.MatrixOperation.NONE
    network.mark_output(network.add_matrix_multiply(x, kind, x, kind).get_output(0))
    config = builder.create_builder_config()
    config.progress_monitor = monitor(trt, listener, interrupts or Interrupts())
    return builder.build_serialized_network(network, config)


def build_into(engines: list[Any], listener: BuildListener) -> None:
    with Interrupts() as interrupts:
        engines.append(build(listener, interrupts))


def test_every_phase_is_heard_inside_its_parent_and_ends() -> None:
    heard = Recorder()
    assert build(heard) is not None
    assert heard.started[0][1] is None
    assert heard.running == []
    outer, _, steps = heard.started[0]
    assert 0 < heard.steps[outer] <= steps


@pytest.mark.parametrize("name", ["phase_started", "phase_advanced", "phase_finished"])
def test_an_interrupt_in_any_callback_ends_the_build(name: str) -> None:
    heard = Recorder()
    real = getattr(heard, name)

    def interrupted(*values: Any) -> None:
        real(*values)
        os.kill(os.getpid(), signal.SIGINT)

    setattr(heard, name, interrupted)
    engines: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        build_into(engines, heard)
    assert engines == [None]


def test_after_a_build_an_interrupt_is_an_exception_again() -> None:
    build_into([], SilentListener())
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_wins_over_the_failure_it_causes() -> None:
    with pytest.raises(KeyboardInterrupt):
        fail_interrupted()


def fail_interrupted() -> None:
    with Interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        raise EngineError("cannot build the engine")


def test_another_thread_may_build() -> None:
    with ThreadPoolExecutor(1) as pool:
        engines: list[Any] = []
        pool.submit(build_into, engines, SilentListener()).result()
    assert len(engines) == 1
    assert engines[0] is not None


def test_a_module_without_monitors_has_no_progress() -> None:
    assert monitor(object(), SilentListener(), Interrupts()) is None
