"""Which backend builds an engine."""

from __future__ import annotations

from dataclasses import dataclass

from cpspec_trt.builder.flavour import FLAVOURS, FULL, gpu_compute_capability
from cpspec_trt.builder.onnxruntime import BACKEND as ONNXRUNTIME
from cpspec_trt.errors import EngineError, UsageError

AUTO = "auto"
BACKENDS = (AUTO, ONNXRUNTIME, *FLAVOURS)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The backend that will build, and what its user should know about the choice, one sentence each."""

    backend: str
    notes: tuple[str, ...] = ()


def choose_backend(name: str, origin: str = "--backend") -> Chosen:
    """The backend that will build; of TensorRT, module and version are looked at here, not after an export.

    Args:
        name: one of ``BACKENDS``; auto takes TensorRT where it could run, else ONNX Runtime. A TensorRT that is there
            and too old or broken is a note.
        origin: where the name was given, for messages.

    Raises:
        EngineError: that flavour of TensorRT cannot build on this machine.
        UsageError: there is no such backend.
    """
    if name not in BACKENDS:
        raise UsageError(f"{origin} {name!r}: is unknown; use one of {', '.join(BACKENDS)}")
    if name in FLAVOURS:
        FLAVOURS[name].load(origin)
    if name != AUTO:
        return Chosen(name)
    if not tensorrt_could_run():
        return Chosen(ONNXRUNTIME)
    try:
        FULL.load()
    except EngineError as fault:
        return Chosen(ONNXRUNTIME, (f"engines are built with {ONNXRUNTIME}, since {fault}",))
    return Chosen(FULL.backend)


def tensorrt_could_run() -> bool:
    """Whether full TensorRT and a GPU are here. Does not import TensorRT."""
    return FULL.is_installed() and gpu_compute_capability() is not None
