"""Choose the backend of an engine directory from its manifest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cpspec_trt.devices.device import Device
from cpspec_trt.engines.engine import Engine
from cpspec_trt.engines.environment import MODULES, check_runnable
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.errors import EngineError, UnsupportedError
from cpspec_trt.files.manifest import read_manifest
from cpspec_trt.files.rebuild import ONNXRUNTIME

AnyEngine = Engine | TensorRTEngine


def open_engine(directory: Path, threads: int | None = None, device: Device | None = None) -> AnyEngine:
    """Open an engine directory with the backend that built it.

    Args:
        directory: the engine directory.
        threads: threads inside one pass on the CPU; None takes every core.
        device: where a TensorRT engine runs; None opens the first GPU, which then closes with the last user.

    Raises:
        EngineError: the directory is missing, its engine is damaged (see the backend), or it cannot run here.
        UnsupportedError: this release cannot run engines of that backend.
    """
    if not directory.is_dir():
        raise EngineError(f"{directory}: the engine directory does not exist; build it with cpspec-build")
    manifest = read_manifest(directory)
    check_runnable(directory, manifest)
    if manifest.backend == ONNXRUNTIME:
        from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine

        return OnnxRuntimeEngine(directory, threads)
    if manifest.backend in MODULES:
        return TensorRTEngine(directory, device or Device())
    raise UnsupportedError(
        f"{directory}: engines of the backend {manifest.backend!r} do not run in this release; "
        f"build it with cpspec-build --backend {ONNXRUNTIME}"
    )


def device_for(directories: Iterable[Path]) -> Device | None:
    """One device for the engines of a set, or None where none of them needs one.

    Raises:
        EngineError: a manifest is missing or damaged, or a GPU is needed and there is none.
    """
    needed = [path for path in directories if read_manifest(path).backend in MODULES]
    return Device() if needed else None
