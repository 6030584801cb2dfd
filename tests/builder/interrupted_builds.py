"""Builds that are killed (SIGKILL) at every step, at random moments, or that race one another; prints what they left.

A process of its own, because it forks: ``python -m tests.builder.interrupted_builds MODE DIRECTORY``.
"""

from __future__ import annotations

import collections
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from cpspec_trt.builder.build import build_engine
from cpspec_trt.builder.profiles import BuildLimits
from cpspec_trt.builder.verify import verify_engines
from cpspec_trt.errors import EngineError
from tests.builder import tiny_exports

FILE_EVENTS = {
    "open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "shutil.copyfile",
    "shutil.rmtree",
}  # fmt: skip


class Scene:
    """Two exports that differ in their weights, and one engine directory."""

    def __init__(self, directory: Path) -> None:
        self.exports = [tiny_exports.write_talker(directory / f"onnx_{seed}", seed) for seed in (1, 2)]
        self.engine = directory / "engines" / "talker"
        self.weights = [(export / "model.onnx.data").read_bytes() for export in self.exports]

    def build(self, number: int) -> None:
        build_engine(self.exports[number], self.engine, BuildLimits())

    def state(self) -> str:
        """absent, the number of the whole engine that is there, or what is broken."""
        if not self.engine.exists():
            return "absent"
        try:
            verify_engines(self.engine)
        except EngineError as fault:
            return f"broken: {fault}"
        return str(self.weights.index((self.engine / "llm.onnx.data").read_bytes()))

    def others(self) -> list[str]:
        """What lies beside the engine."""
        self.engine.parent.mkdir(parents=True, exist_ok=True)
        return sorted(path.name for path in self.engine.parent.iterdir() if path != self.engine)


def run_forked(action: Callable[[], None], kill_after: float | None = None) -> bool:
    """Run ``action`` in a child process; True if it was killed."""
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the build failed"
    return os.WIFSIGNALED(status)


def killed_at(step: int, action: Callable[[], None]) -> Callable[[], None]:
    """``action``, but the process dies just before its ``step``-th file operation."""

    def run() -> None:
        seen = 0

        def count(event: str, _: tuple[Any, ...]) -> None:
            nonlocal seen
            if event in FILE_EVENTS:
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        action()

    return run


def every_step(scene: Scene) -> dict[str, Any]:
    """Kill a build over an older engine at its first, second, … file operation, until one survives."""
    states: collections.Counter[str] = collections.Counter()
    step = 0
    killed = True
    while killed:
        step += 1
        for name in scene.others():
            shutil.rmtree(scene.engine.parent / name)  # so that every build has the same steps
        if scene.state() != "0":
            run_forked(lambda: scene.build(0))
        killed = run_forked(killed_at(step, lambda: scene.build(1)))
        if killed:
            states[scene.state()] += 1
    return {"states": states, "steps": step, "final": scene.state(), "others": scene.others()}


def first_build(scene: Scene) -> dict[str, Any]:
    """As ``every_step``, where no engine was before (every fifth step)."""
    states: collections.Counter[str] = collections.Counter()
    step = 1
    while run_forked(killed_at(step, lambda: scene.build(1))):
        state = scene.state()
        states[state] += 1
        if state != "absent":
            scene.engine.rename(scene.engine.parent.parent / f"done_{step}")
        step += 5
    return {"states": states, "steps": step, "final": scene.state(), "others": scene.others()}


def random_moments(scene: Scene) -> dict[str, Any]:
    """Kill builds from outside, 30 times."""
    chance = random.Random(0)
    states: collections.Counter[str] = collections.Counter()
    builds = (lambda: scene.build(0), lambda: scene.build(1))
    began = time.perf_counter()
    run_forked(builds[0])
    longest = time.perf_counter() - began
    for attempt in range(30):
        run_forked(builds[attempt % 2], kill_after=chance.uniform(0.0, 1.2 * longest))
        states[scene.state()] += 1
    run_forked(builds[1])
    return {"states": states, "final": scene.state(), "others": scene.others()}


def race(scene: Scene) -> dict[str, Any]:
    """Two builders into one directory, ten builds each, while a third process looks whether it is there."""
    run_forked(lambda: scene.build(0))

    def build_often(number: int) -> None:
        for _ in range(10):
            scene.build(number)

    children = []
    for number in (0, 1):
        child = os.fork()
        if child == 0:
            build_often(number)
            os._exit(0)
        children.append(child)
    looks = missing = 0
    failures = []
    while children:
        looks += 1
        missing += not scene.engine.is_dir()
        for child in list(children):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                children.remove(child)
                failures += [status] if status else []
    return {"looks": looks, "missing": missing, "failures": failures, "final": scene.state(), "others": scene.others()}


MODES = {mode.__name__: mode for mode in (every_step, first_build, random_moments, race)}

if __name__ == "__main__":
    # fsync protects from power failures, which are not played here, and would take most of the time.
    with mock.patch("os.fsync"):
        print(json.dumps(MODES[sys.argv[1]](Scene(Path(sys.argv[2])))))
