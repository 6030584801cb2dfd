"""A TensorRT engine is compared with the machine before anything is loaded; GPU and library are stand-ins here."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpspec_trt.cli.build import main as build_command
from cpspec_trt.devices.cuda import DeviceFacts
from cpspec_trt.engines import environment
from cpspec_trt.engines.environment import MODULES, check_fits_together, check_runnable, tensorrt_module
from cpspec_trt.errors import EngineError
from cpspec_trt.files.manifest import PORTABLE, BuildFacts, EngineFile, Manifest, Profile, write_manifest

FACTS = BuildFacts("1.7.1.116", platform.system(), platform.machine(), (PORTABLE,), 3, None, False, False)
DEVICE = DeviceFacts("NVIDIA RTX 4090", "8.9", 24 << 30, 20 << 30, "13.0")
SIZE = 1 << 20


def manifest_of(backend: str = "tensorrt-rtx", **facts: Any) -> Manifest:
    return Manifest(
        backend=backend,
        backend_version="1.7.1.116",
        component="talker",
        model="qwen3_tts_talker",
        checkpoint_fingerprint="abc",
        precision="fp16",
        inputs=(),
        outputs=(),
        profiles=(),
        limits={"max_batch_size": 4, "max_input_len": 64},
        files=(EngineFile("llm.engine", SIZE, "00", "00"),),
        sidecars=(),
        build=replace(FACTS, **facts),
    )


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine directory, on a machine that has what the engine was built for."""
    (tmp_path / "llm.engine").write_bytes(b"vtrt" + bytes(SIZE - 4))
    machine(monkeypatch)
    return tmp_path


def machine(monkeypatch: pytest.MonkeyPatch, version: str = "1.7.1.116", **facts: Any) -> None:
    monkeypatch.setattr(environment, "probe", lambda: replace(DEVICE, **facts))
    monkeypatch.setattr(environment, "tensorrt_module", lambda backend: SimpleNamespace(__version__=version))


def refusal(directory: Path, manifest: Manifest) -> str:
    with pytest.raises(EngineError) as caught:
        check_runnable(directory, manifest)
    message = str(caught.value)
    assert message.startswith(str(directory))
    return message


def command_in(message: str) -> list[str]:
    """The words of the command that a message ends with; the command line must know every flag."""
    words = shlex.split(message[message.index("cpspec-build") :])
    build_command.make_context(words[0], words[1:]).close()
    return words


@pytest.mark.parametrize("backend", MODULES)
def test_an_engine_that_fits_the_machine_passes(directory: Path, backend: str) -> None:
    check_runnable(directory, manifest_of(backend, compute_capabilities=("8.9",)))


def test_an_engine_of_onnx_runtime_asks_for_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(environment, "probe")
    check_runnable(tmp_path, replace(manifest_of("onnxruntime"), build=None))


@pytest.mark.parametrize(
    ("backend", "field", "value"),
    [("tensorrt", "os", "Windows"), ("tensorrt", "machine", "aarch64"), ("tensorrt-rtx", "machine", "aarch64")],
)
def test_another_operating_system_or_machine_is_refused(directory: Path, backend: str, field: str, value: str) -> None:
    facts = {"os": FACTS.os, "machine": FACTS.machine, field: value}
    message = refusal(directory, manifest_of(backend, **facts))
    here = f"{platform.system()} on {platform.machine()}"
    assert f"was built for {facts['os']} on {facts['machine']}, here is {here}; rebuild it with" in message
    assert command_in(message)[5:7] == ["--backend", backend]


def test_engines_of_tensorrt_rtx_are_portable_between_operating_systems(directory: Path) -> None:
    check_runnable(directory, manifest_of(os="Windows"))


def test_without_a_gpu_nothing_of_tensorrt_is_imported(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "probe", lambda: "no GPU can be used: the NVIDIA driver is missing")
    monkeypatch.delattr(environment, "tensorrt_module")
    message = refusal(directory, manifest_of())
    assert "is an engine of tensorrt-rtx: no GPU can be used: the NVIDIA driver is missing; or rebuild it" in message
    words = command_in(message)
    assert words[words.index("--backend") + 1] == "onnxruntime"
    assert words[words.index("--engineDir") + 1] == str(directory)
    assert "--precision" not in words


def test_a_missing_library_says_what_to_install(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(backend: str) -> Any:
        raise ModuleNotFoundError("No module named 'tensorrt_rtx'")

    monkeypatch.setattr(environment, "tensorrt_module", missing)
    message = refusal(directory, manifest_of())
    assert "needs the Python module tensorrt_rtx 1.7.1.116: No module named 'tensorrt_rtx'; pip install 'cp" in message


@pytest.mark.parametrize(
    ("backend", "built", "here", "compatible", "passes"),
    [
        ("tensorrt-rtx", "1.7.1.116", "1.7.1.116", False, True),
        ("tensorrt-rtx", "1.7.1.116", "1.7.1.117", False, False),
        ("tensorrt", "11.3.0.9", "11.4.0.12", False, False),
        ("tensorrt", "11.3.0.9", "11.4.0.12", True, True),
        ("tensorrt", "11.4.0.12", "11.3.0.9", True, False),
        ("tensorrt", "10.15.1.29", "11.4.0.12", True, False),
        ("tensorrt", "11.9.0.1", "11.10.0.1", True, True),
    ],
)
def test_the_version_must_be_the_one_that_built_unless_the_engine_allows_later_ones(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    built: str,
    here: str,
    compatible: bool,
    passes: bool,
) -> None:
    machine(monkeypatch, here)
    manifest = manifest_of(
        backend, tensorrt_version=built, version_compatible=compatible, compute_capabilities=("8.9",)
    )
    if passes:
        check_runnable(directory, manifest)
        return
    message = refusal(directory, manifest)
    assert f"was built with {backend} {built}, here is {here}; rebuild it with cpspec-build" in message
    assert ("--versionCompatible" in command_in(message)) == compatible


@pytest.mark.parametrize(
    ("backend", "targets", "hardware", "here", "expected"),
    [
        ("tensorrt-rtx", (PORTABLE,), False, "8.6", None),
        ("tensorrt-rtx", (PORTABLE,), False, "12.3", None),
        ("tensorrt-rtx", (PORTABLE,), False, "7.5", "was built for compute capability 8.0 and later; NVIDIA RTX 4090"),
        ("tensorrt-rtx", ("8.9", "12.0"), False, "12.0", None),
        ("tensorrt-rtx", ("8.9", "12.0"), False, "8.6", "was built for compute capability 8.9, 12.0; NVIDIA RTX 4090"),
        ("tensorrt-rtx", (PORTABLE,), False, "9.0", None),
        ("tensorrt", ("9.0",), False, "9.0", None),
        ("tensorrt", ("8.6",), False, "8.9", "was built for compute capability 8.6; NVIDIA RTX 4090 has compute cap"),
        ("tensorrt", ("8.6",), True, "8.9", None),
        ("tensorrt", ("8.6",), True, "7.5", "was built for compute capability 8.0 and later"),
    ],
)
def test_the_gpu_must_be_one_that_the_engine_was_built_for(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    targets: tuple[str, ...],
    hardware: bool,
    here: str,
    expected: str | None,
) -> None:
    machine(monkeypatch, compute_capability=here)
    manifest = manifest_of(backend, compute_capabilities=targets, hardware_compatible=hardware)
    if expected is None:
        check_runnable(directory, manifest)
        return
    message = refusal(directory, manifest)
    assert expected in message
    words = command_in(message)
    assert words[words.index("--backend") + 1] == ("tensorrt" if here == "7.5" else backend)
    named = words[words.index("--computeCapabilities") + 1] if "--computeCapabilities" in words else ""
    assert (here in named.split(",")) == (backend == "tensorrt-rtx" and here != "7.5")


def test_a_file_that_is_no_engine_is_refused(directory: Path) -> None:
    (directory / "llm.engine").write_bytes(b"<!DOCTYPE html>")
    assert r"llm.engine: is not an engine of tensorrt-rtx (it starts with b'<!DO'); rebuild" in refusal(
        directory, manifest_of()
    )


def test_a_file_that_is_not_there_is_named(directory: Path) -> None:
    (directory / "llm.engine").unlink()
    assert "llm.engine: cannot be read: No such file or directory; rebuild it with" in refusal(directory, manifest_of())


def test_an_engine_larger_than_the_free_memory_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, free_memory=SIZE)
    check_runnable(directory, manifest_of())
    machine(monkeypatch, free_memory=SIZE - 1)
    message = refusal(directory, manifest_of())
    assert (
        "takes more than 1 MB of device memory, NVIDIA RTX 4090 has 1 MB free; end other programs on it, or" in message
    )
    command_in(message)


def a_set(root: Path, **sizes: int) -> list[Path]:
    """Directories with manifests of engines of these bytes; negative ones are of ONNX Runtime."""
    for name, size in sizes.items():
        (root / name).mkdir()
        manifest = replace(
            manifest_of(),
            files=(EngineFile("llm.engine", abs(size), "00", "00"),),
            sidecars=(EngineFile("config.json", 1, "00", "00"),),
            profiles=(Profile("context", {}), Profile("generation", {})),
        )
        write_manifest(root / name, manifest if size > 0 else replace(manifest, backend="onnxruntime", build=None))
    return [root / name for name in sizes]


def test_engines_that_fit_one_by_one_and_not_together_are_refused_with_their_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = a_set(tmp_path, talker=3_000_000, code_predictor=1_000_000, code2wav=-9_000_000)
    machine(monkeypatch, free_memory=4_000_000)
    check_fits_together(directories)
    machine(monkeypatch, free_memory=3_900_000)
    with pytest.raises(EngineError) as caught:
        check_fits_together(directories)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'talker'}: 3 MB, {tmp_path / 'code_predictor'}: 1 MB; together they take ")
    assert "more than 4 MB of device memory, NVIDIA RTX 4090 has 4 MB free; end other programs" in message
    assert str(tmp_path / "talker") in command_in(message)


def test_a_set_of_onnx_runtime_asks_for_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(environment, "probe")
    check_fits_together(a_set(tmp_path, talker=-9_000_000, code2wav=-1))


def test_a_gpu_that_is_gone_is_told_for_a_set_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "probe", lambda: "no GPU can be used: none")
    with pytest.raises(EngineError, match="talker: is an engine of tensorrt-rtx: no GPU can be used: none"):
        check_fits_together(a_set(tmp_path, talker=1))


Change = Callable[[pytest.MonkeyPatch], None]
WRONG: list[tuple[Change, str]] = [
    (lambda patch: patch.setattr(environment, "probe", lambda: "none"), "is an engine of"),
    (lambda patch: machine(patch, "2.0", compute_capability="7.0", free_memory=0), "was built with"),
    (lambda patch: machine(patch, compute_capability="7.0", free_memory=0), "was built for"),
    (lambda patch: machine(patch, free_memory=0), "device memory"),
]


@pytest.mark.parametrize(("change", "first"), WRONG)
def test_of_several_faults_the_deepest_is_named(
    directory: Path, monkeypatch: pytest.MonkeyPatch, change: Change, first: str
) -> None:
    change(monkeypatch)
    assert first in refusal(directory, manifest_of())


def test_the_module_of_a_flavour_that_is_not_installed_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, "tensorrt", "a_module_that_nobody_wrote")
    with pytest.raises(ImportError):
        tensorrt_module("tensorrt")
