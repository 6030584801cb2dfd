"""Which backend builds an engine."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from cpspec_trt.builder.onnxruntime import BACKEND as ONNXRUNTIME
from cpspec_trt.errors import UnsupportedError, UsageError

AUTO = "auto"
TENSORRT_BACKENDS = ("tensorrt", "tensorrt-rtx")
BACKENDS = (AUTO, ONNXRUNTIME, *TENSORRT_BACKENDS)
_GPU_DRIVER = Path("/proc/driver/nvidia/version")


def choose_backend(name: str, origin: str = "--backend") -> tuple[str, str | None]:
    """The backend that will build, and a note if it is not the one that could be expected.

    Args:
        name: one of ``BACKENDS``; auto takes the best one this release and this machine have.
        origin: where the name was given, for messages.

    Raises:
        UnsupportedError: a TensorRT backend was asked for by name.
        UsageError: there is no such backend.
    """
    if name in TENSORRT_BACKENDS:
        raise UnsupportedError(f"{origin} {name}: is not built yet in this release; use --backend {ONNXRUNTIME}")
    if name not in BACKENDS:
        raise UsageError(f"{origin} {name!r}: is unknown; use one of {', '.join(BACKENDS)}")
    note = None
    if name == AUTO and tensorrt_could_run():
        note = f"this machine has TensorRT and a GPU, but this release builds no TensorRT engines; using {ONNXRUNTIME}"
    return ONNXRUNTIME, note


def tensorrt_could_run() -> bool:
    """Whether the tensorrt module and an NVIDIA driver are here. Imports neither."""
    return importlib.util.find_spec("tensorrt") is not None and _GPU_DRIVER.exists()
