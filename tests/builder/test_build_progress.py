"""Phases of a real build reach the listener, and Ctrl-C ends it."""

from __future__ import annotations

from typing import Any

import pytest
import tensorrt_rtx as trt

from cpspec_trt.builder.build_log import BuildLog
from cpspec_trt.builder.build_progress import BuildListener, SilentListener, monitor
from cpspec_trt.builder.flavour import RTX


class Recorder:
    """Keeps what it hears; stops at the first step of the phase ``until``."""

    def __init__(self, until: str | None = None) -> None:
        self.started: list[tuple[str, str | None, int]] = []
        self.steps: dict[str, int] = {}
        self.running: list[str] = []
        self._until = until

    def phase_started(self, name: str, parent: str | None, steps: int) -> None:
        assert parent is None or parent in self.running
        self.started.append((name, parent, steps))
        self.running.append(name)

    def phase_advanced(self, name: str, step: int) -> None:
        assert name in self.running
        self.steps[name] = step
        if name == self._until:
            raise KeyboardInterrupt

    def phase_finished(self, name: str) -> None:
        self.running.remove(name)


def build(listener: BuildListener) -> tuple[Any, Any]:
    """The engine of one product, or None, and the monitor."""
    log = BuildLog(trt, RTX, "talker")
    builder = trt.Builder(log.logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    x = network.add_input("x", trt.float32, (4, 4))
    kind = trt.MatrixOperation.NONE
    network.mark_output(network.add_matrix_multiply(x, kind, x, kind).get_output(0))
    config = builder.create_builder_config()
    config.progress_monitor = watched = monitor(trt, listener)
    return builder.build_serialized_network(network, config), watched


def test_every_phase_is_heard_inside_its_parent_and_ends() -> None:
    heard = Recorder()
    engine, watched = build(heard)
    assert engine is not None
    assert not watched.interrupted
    assert heard.started[0][1] is None
    assert heard.running == []
    outer, _, steps = heard.started[0]
    assert 0 < heard.steps[outer] <= steps


def test_an_interrupt_ends_the_build_without_an_engine() -> None:
    outer = "Building engine"
    engine, watched = build(Recorder(until=outer))
    assert engine is None
    assert watched.interrupted


def test_nobody_needs_to_listen() -> None:
    assert build(SilentListener())[0] is not None


def test_a_module_without_monitors_has_no_progress() -> None:
    assert monitor(object(), SilentListener()) is None


@pytest.mark.parametrize("name", ["phase_started", "phase_advanced", "phase_finished"])
def test_an_interrupt_at_any_moment_is_kept_for_later(name: str) -> None:
    class Stops(SilentListener):
        pass

    def stop(*values: object) -> None:
        raise KeyboardInterrupt

    listener = Stops()
    setattr(listener, name, stop)
    assert build(listener)[1].interrupted
