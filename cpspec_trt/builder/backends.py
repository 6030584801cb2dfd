"""Which backend builds an engine."""

from __future__ import annotations

from cpspec_trt.builder.flavour import FLAVOURS, FULL, gpu_compute_capability
from cpspec_trt.builder.onnxruntime import BACKEND as ONNXRUNTIME
from cpspec_trt.errors import UsageError

AUTO = "auto"
BACKENDS = (AUTO, ONNXRUNTIME, *FLAVOURS)


def choose_backend(name: str, origin: str = "--backend") -> str:
    """The backend that will build.

    Args:
        name: one of ``BACKENDS``; auto takes TensorRT where it could run, else ONNX Runtime.
        origin: where the name was given, for messages.

    Raises:
        EngineError: that flavour of TensorRT cannot build on this machine.
        UsageError: there is no such backend.
    """
    if name not in BACKENDS:
        raise UsageError(f"{origin} {name!r}: is unknown; use one of {', '.join(BACKENDS)}")
    if name == AUTO:
        return FULL.backend if tensorrt_could_run() else ONNXRUNTIME
    if name in FLAVOURS:
        FLAVOURS[name].check_usable(origin)
    return name


def tensorrt_could_run() -> bool:
    """Whether full TensorRT and a GPU are here. Does not import TensorRT."""
    return FULL.is_installed() and gpu_compute_capability() is not None
