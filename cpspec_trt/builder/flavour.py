"""The two flavours of TensorRT: the Python module of each, and what it needs. Neither is imported before it is used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from typing import Any

from cpspec_trt.devices.cuda import probe
from cpspec_trt.errors import EngineError
from cpspec_trt.files.rebuild import ONNXRUNTIME as _EMBEDDED

_OLDEST_FULL = (10, 15)


@dataclass(frozen=True, slots=True)
class Flavour:
    """One flavour.

    Attributes:
        backend: its name on the command line and in manifests.
        module: its Python module.
        needs_gpu: whether it builds on the GPU that will run the engine, and for no other; the other kind builds
            ahead of time, for the compute capabilities it is told.
    """

    backend: str
    module: str
    needs_gpu: bool

    def is_installed(self) -> bool:
        """Whether the module is here. Does not import it."""
        return self.module in sys.modules or importlib.util.find_spec(self.module) is not None

    def check_usable(self, origin: str = "--backend") -> None:
        """Refuse a flavour that cannot build here, before anything of it is loaded: without a driver it would crash.

        ``origin`` is where its name was given, for messages.

        Raises:
            EngineError: the module or the GPU is missing; says what to install or which backend to take instead.
        """
        if not self.is_installed():
            raise EngineError(
                f"{origin} {self.backend}: the Python module {self.module} is not installed; "
                f"pip install 'cpspec-trt[{self.backend}]', or use --backend {_EMBEDDED}"
            )
        if self.needs_gpu and isinstance(missing := probe(), str):
            raise EngineError(
                f"{origin} {self.backend}: builds on the GPU that will run the engine, but {missing}; "
                f"or use --backend {RTX.backend} or {_EMBEDDED}, which build without a GPU"
            )

    def load(self, origin: str = "--backend") -> Any:
        """The module; ``origin`` as for ``check_usable``.

        Raises:
            EngineError: it cannot be used here, or is older than what this package was written for.
        """
        self.check_usable(origin)
        try:
            module = importlib.import_module(self.module)
        except (ImportError, OSError) as fault:  # a shared library that the module needs is missing or of another CUDA
            reason = " ".join(str(fault).split())
            raise EngineError(
                f"{origin} {self.backend}: {self.module} cannot be imported: {reason}; install it again, "
                f"or use --backend {_EMBEDDED}"
            ) from fault
        version = tuple(int(part) for part in module.__version__.split(".")[:2])
        if self.needs_gpu and version < _OLDEST_FULL:
            raise EngineError(
                f"{origin} {self.backend}: TensorRT {module.__version__} is installed, and this package needs "
                f"{'.'.join(map(str, _OLDEST_FULL))} or newer; pip install --upgrade 'cpspec-trt[{self.backend}]', "
                f"or use --backend {_EMBEDDED}"
            )
        return module


FULL = Flavour("tensorrt", "tensorrt", needs_gpu=True)
RTX = Flavour("tensorrt-rtx", "tensorrt_rtx", needs_gpu=False)
FLAVOURS = {flavour.backend: flavour for flavour in (FULL, RTX)}


def gpu_compute_capability() -> str | None:
    """Compute capability of the GPU here ("8.9"), or None if CUDA is not installed or finds none."""
    found = probe()
    return None if isinstance(found, str) else found.compute_capability
