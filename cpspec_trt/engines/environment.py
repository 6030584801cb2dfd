"""Whether a TensorRT engine can run on this machine: its manifest against what is here, before a byte is loaded.

TensorRT refuses an engine that was built for something else, but late, after the model was read, and in words that
name neither the engine nor a remedy; without a driver it takes the process with it. So everything that can be known
beforehand is compared here.
"""

from __future__ import annotations

import importlib
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from cpspec_trt.devices.cuda import DeviceFacts, probe
from cpspec_trt.errors import EngineError
from cpspec_trt.files.manifest import BuildFacts, Manifest, read_manifest
from cpspec_trt.files.rebuild import FULL, ONNXRUNTIME, RTX, rebuild_command

MODULES = {FULL: "tensorrt", RTX: "tensorrt_rtx"}
_OLDEST_PORTABLE = (8, 0)  # of a portable engine, and of a hardware compatible one
_RTX_MAGIC = b"vtrt"


def check_runnable(directory: Path, manifest: Manifest) -> None:
    """Refuse an engine that this machine cannot run. An engine of ONNX Runtime runs anywhere.

    Compared in this order: operating system and machine, driver and GPU, TensorRT and its version, compute
    capability, the engine file's first bytes, free device memory.

    Raises:
        EngineError: says what the engine was built for, what is here, and the command that builds it again.
    """
    if manifest.build is None:
        return
    engine = _Engine(directory, manifest, manifest.build)
    engine.check_platform()
    device = engine.device()
    engine.check_version()
    engine.check_capability(device)
    engine.check_magic()
    engine.check_memory(device)


def check_fits_together(directories: Iterable[Path]) -> None:
    """Refuse a set of engines that fit into the free device memory one by one, but not together.

    Args:
        directories: engines that will be open at once. Those of ONNX Runtime take no device memory.

    Raises:
        EngineError: a manifest is missing or damaged, there is no GPU, or the memory does not suffice; names every
            engine's size.
    """
    read = {directory: read_manifest(directory) for directory in directories}
    sizes = {directory: _size(manifest) for directory, manifest in read.items() if manifest.build is not None}
    if not sizes:
        return
    device = probe()
    largest = max(sizes, key=lambda directory: sizes[directory])
    if isinstance(device, str):
        raise EngineError(f"{largest}: is an engine of {read[largest].backend}: {device}")
    if sum(sizes.values()) > device.free_memory:
        each = ", ".join(f"{directory}: {size / 1e6:.0f} MB" for directory, size in sizes.items())
        remedy = f"rebuild the largest with {rebuild_command(largest, read[largest])}"
        raise EngineError(
            f"{each}; together they take more than {sum(sizes.values()) / 1e6:.0f} MB of device memory, {device.name} "
            f"has {device.free_memory / 1e6:.0f} MB free; end other programs on it, or lower the sizes and {remedy}"
        )


def tensorrt_module(backend: str) -> Any:
    """The Python module of a TensorRT flavour.

    Raises:
        ImportError, OSError: it, or a library it needs, is not installed.
    """
    return importlib.import_module(MODULES[backend])


class _Engine:
    """One engine directory under examination."""

    def __init__(self, directory: Path, manifest: Manifest, facts: BuildFacts) -> None:
        self._directory = directory
        self._manifest = manifest
        self._facts = facts
        self._backend = manifest.backend

    def check_platform(self) -> None:
        built, here = self._facts, (platform.system(), platform.machine())
        same_system = (
            built.os == here[0] or self._backend == RTX
        )  # whose engines are portable between Linux and Windows
        if not same_system or built.machine != here[1]:
            self._refuse(f"was built for {built.os} on {built.machine}, here is {' on '.join(here)}", self._rebuild())

    def device(self) -> DeviceFacts:
        found = probe()
        if isinstance(found, str):
            self._refuse(f"is an engine of {self._backend}: {found}", f"or {self._rebuild(backend=ONNXRUNTIME)}")
        return found

    def check_version(self) -> None:
        try:
            here = str(tensorrt_module(self._backend).__version__)
        except (ImportError, OSError) as fault:
            reason = f"needs the Python module {MODULES[self._backend]} {self._facts.tensorrt_version}: {fault}"
            install = f"pip install 'cpspec-trt[{self._backend}]'"
            self._refuse(reason, f"{install}, or {self._rebuild(backend=ONNXRUNTIME)}")
        built = self._facts.tensorrt_version
        if here != built and not (self._facts.version_compatible and _later_of_same_major(built, here)):
            self._refuse(f"was built with {self._backend} {built}, here is {here}", self._rebuild())

    def check_capability(self, device: DeviceFacts) -> None:
        capability, targets = device.compute_capability, self._facts.compute_capabilities
        here = f"{device.name} has compute capability {capability}"
        spread = not self._facts.named_capabilities or self._facts.hardware_compatible
        old = _numbers(capability) < _OLDEST_PORTABLE
        if capability in targets or (spread and not old):
            return
        built = "compute capability 8.0 and later" if spread else f"compute capability {', '.join(targets)}"
        reason = f"was built for {built}; {here}"
        if self._backend != RTX:
            self._refuse(reason, self._rebuild())
        self._refuse(reason, self._rebuild(backend=FULL) if old else self._rebuild(capability))

    def check_magic(self) -> None:
        if self._backend != RTX:
            return
        path = self._path()
        try:
            with path.open("rb") as stream:
                first = stream.read(len(_RTX_MAGIC))
        except OSError as fault:
            raise EngineError(f"{path}: cannot be read: {fault.strerror}; {self._rebuild()}") from None
        if first != _RTX_MAGIC:
            raise EngineError(f"{path}: is not an engine of {RTX} (it starts with {first!r}); {self._rebuild()}")

    def check_memory(self, device: DeviceFacts) -> None:
        size = _size(self._manifest)
        if size > device.free_memory:
            needed, free = f"{size / 1e6:.0f} MB", f"{device.free_memory / 1e6:.0f} MB"
            self._refuse(
                f"takes more than {needed} of device memory, {device.name} has {free} free",
                f"end other programs on it, or lower the sizes and {self._rebuild()}",
            )

    def _path(self) -> Path:
        return self._directory / self._manifest.files[0].name

    def _rebuild(self, capability: str | None = None, backend: str | None = None) -> str:
        return f"rebuild it with {rebuild_command(self._directory, self._manifest, backend, capability)}"

    def _refuse(self, reason: str, remedy: str) -> NoReturn:
        raise EngineError(f"{self._directory}: {reason}; {remedy}")


def _size(manifest: Manifest) -> int:
    """Bytes of the engine's files, the least that its weights take on a device."""
    return sum(file.bytes for file in manifest.files)


def _later_of_same_major(built: str, here: str) -> bool:
    older, newer = _numbers(built), _numbers(here)
    return older[:1] == newer[:1] and older <= newer


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
