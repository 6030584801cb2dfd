"""Choose the backend of an engine directory from its manifest."""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.engines.engine import Engine
from cpspec_trt.engines.environment import check_runnable
from cpspec_trt.errors import EngineError, UnsupportedError
from cpspec_trt.files.manifest import read_manifest


def open_engine(directory: Path, threads: int | None = None) -> Engine:
    """Open an engine directory with the backend that built it.

    Raises:
        EngineError: the directory is missing, or its engine is damaged (see the backend).
        UnsupportedError: this release cannot run engines of that backend.
    """
    if not directory.is_dir():
        raise EngineError(f"{directory}: the engine directory does not exist; build it with cpspec-build")
    manifest = read_manifest(directory)
    check_runnable(directory, manifest)
    if manifest.backend == "onnxruntime":
        from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine

        return OnnxRuntimeEngine(directory, threads)
    raise UnsupportedError(
        f"{directory}: engines of the backend {manifest.backend!r} do not run in this release; "
        f"build it with cpspec-build --backend onnxruntime"
    )
