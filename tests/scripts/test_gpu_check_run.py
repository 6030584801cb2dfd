"""The whole GPU check on a machine that only seems to have a GPU: what it prints, writes and ends with."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from scripts import gpu_check
from scripts.gpu import suite, workloads
from scripts.gpu.driver import NoDevice
from scripts.gpu.report import BEGIN, END
from scripts.gpu.workload import Copy
from tests.plugins import device
from tests.plugins.emulated import EmulatedLibrary, Schedule, emulated_kernels
from tests.plugins.simulated_device import HostMemory

LINES = ["| operation |"]


class Machine:
    """A GPU whose suite, kernels and engines end as they are told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, document: Path) -> None:
        self.document = document
        self.suite, self.kernel_faults, self.engines = 0, [], ([], [])
        document.write_text(f"{BEGIN}\n{END}\n")
        monkeypatch.setattr(gpu_check, "compute_capability", lambda: 90)
        monkeypatch.setattr(gpu_check, "build", lambda capability: Path(f"cuda-{capability}.so"))
        monkeypatch.setattr(suite, "run_suite", lambda library: subprocess.CompletedProcess([], self.suite))
        monkeypatch.setattr(gpu_check, "time_kernels", lambda library: ("A GPU, sm_90", [*LINES], self.kernel_faults))
        monkeypatch.setattr(gpu_check, "check_demo_engines", lambda capability, library: self.engines)
        monkeypatch.setattr("sys.argv", ["gpu_check.py", "--write", str(document)])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path / "kernels.md")


def test_a_gpu_on_which_everything_passes_gets_its_tables_written(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.engines = (["", "| engines |"], [])
    assert gpu_check.main() == 0
    assert "A GPU, sm_90\n\n| operation |\n\n| engines |\neverything passed on the device\n" in capsys.readouterr().out
    assert "| operation |\n\n| engines |" in machine.document.read_text()


def test_a_suite_that_fails_writes_nothing(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.suite = 1
    assert gpu_check.main() == 1
    assert capsys.readouterr().out.endswith("FAILED:\nthe kernels' suite on the device\n")
    assert machine.document.read_text() == f"{BEGIN}\n{END}\n"


def test_a_kernel_or_an_engine_that_fails_is_told_and_the_tables_are_kept(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.kernel_faults = ["draw, 2 × 8: no memory"]
    machine.engines = ([], ["tensorrt-fp32: cpspec-build ended with 1"])
    assert gpu_check.main() == 1
    told = "draw, 2 × 8: no memory\ntensorrt-fp32: cpspec-build ended with 1\n"
    assert capsys.readouterr().out.endswith("FAILED:\n" + told)
    assert "| operation |\n\nFailed: tensorrt-fp32: cpspec-build ended with 1\n" in machine.document.read_text()


@pytest.mark.parametrize(("arguments", "status"), [([], 1), (["--allow-missing"], 0)])
def test_without_a_gpu_nothing_is_built(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, arguments: list[str], status: int
) -> None:
    def missing() -> int:
        raise NoDevice("there is none")

    monkeypatch.setattr(gpu_check, "compute_capability", missing)
    monkeypatch.setattr(gpu_check, "build", lambda capability: pytest.fail("built"))
    monkeypatch.setattr("sys.argv", ["gpu_check.py", *arguments])
    assert gpu_check.main() == status


class Tools(HostMemory):
    """What DeviceTools offers, over host memory; a replay is a call."""

    name = "Host memory, sm_0"

    def __init__(self, path: Path) -> None:
        super().__init__()

    def prefetch(self, memory: int, size: int) -> None:
        assert self.holds(memory)

    def graph_times(self, enqueue: Callable[[], None], replays: int) -> np.ndarray:
        enqueue()
        return np.full(replays, 0.5, np.float32)


class Library(EmulatedLibrary):
    """What DeviceLibrary offers, over the emulated kernels."""

    def __init__(self, path: Path, tools: Tools) -> None:
        super().__init__(emulated_kernels(Schedule(0, 256)).library.path, Schedule(0, 256))

    def call(self, operation: str, *arguments: object) -> None:
        self.last = operation, arguments
        super().call(operation, *arguments)

    def enqueue_last(self) -> None:
        operation, arguments = self.last
        super().call(operation, *arguments)


def test_kernels_are_timed_through_the_objects_that_a_device_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def few(copy: Copy) -> object:
        random = np.random.default_rng(0)
        yield workloads.logits_workloads.talker(copy, random)
        yield workloads.round_workloads.commit(copy, random, 2)

    monkeypatch.setattr(device, "DeviceTools", Tools)
    monkeypatch.setattr(device, "DeviceLibrary", Library)
    monkeypatch.setattr(workloads, "workloads", few)
    monkeypatch.setattr(gpu_check, "import_torch", lambda: None)
    name, lines, failed = gpu_check.time_kernels(Path("libcpspec_cuda_checked.so"))
    assert (name, failed) == ("Host memory, sm_0", [])
    assert [line.split(" | ")[:3:2] for line in lines[2:]] == [["| draw_talker", "500.0"], ["| accept_commit", "500.0"]]


def test_without_tensorrt_for_the_gpu_that_is_said_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from scripts.gpu import engines

    monkeypatch.setattr(engines, "tensorrt_backend", lambda capability: None)
    monkeypatch.setattr(gpu_check.os, "environ", {})
    assert gpu_check.check_demo_engines(90, Path("some.so")) == ([], [])
    assert capsys.readouterr().err == "TensorRT for this GPU is not installed here: no engine is built or timed.\n"


def test_with_tensorrt_the_engines_run_the_kernels_that_were_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    from scripts.gpu import engines

    environment: dict[str, str] = {}
    seen = SimpleNamespace()

    def check(backend: str, folder: Path) -> tuple[list[str], list[str]]:
        seen.backend, seen.folder, seen.exists = backend, folder, folder.is_dir()
        return ["| engines |"], ["a fault"]

    monkeypatch.setattr(engines, "tensorrt_backend", lambda capability: "tensorrt")
    monkeypatch.setattr(engines, "check_engines", check)
    monkeypatch.setattr(gpu_check.os, "environ", environment)
    assert gpu_check.check_demo_engines(90, Path("some.so")) == (
        ["", gpu_check.ENGINES_TITLE, "", "| engines |"], ["a fault"],
    )  # fmt: skip
    assert environment == {"CPSPEC_CUDA_LIBRARY": "some.so"}
    assert (seen.backend, seen.exists, seen.folder.exists()) == ("tensorrt", True, False)
