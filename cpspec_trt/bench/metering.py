"""Where the time of a frame goes: engine passes and kernels by name; the rest is bookkeeping of the host.

Metered engines and kernels are used in passes of their own, never in the timed ones.
"""

from __future__ import annotations

import time
from collections import defaultdict

from cpspec_trt.engines.engine import BoundPass, Engine, Tensors
from cpspec_trt.files.manifest import ProfileName
from cpspec_trt.kernels.loading import CPU_LIBRARY, REBUILD
from cpspec_trt.kernels.native_library import NativeLibrary


class Meter:
    """Seconds since the last ``take``.

    Attributes:
        engine: in passes of the engine.
        kernels: in the kernels' library, by operation.
    """

    def __init__(self) -> None:
        self.engine = 0.0
        self.kernels: defaultdict[str, float] = defaultdict(float)

    def reset(self) -> None:
        """Begin again."""
        self.engine = 0.0
        self.kernels.clear()


class MeteredEngine:
    """An ``Engine`` whose passes are timed."""

    def __init__(self, engine: Engine, meter: Meter) -> None:
        self.manifest = engine.manifest
        self._engine = engine
        self._meter = meter

    def bind(self, profile: ProfileName, tensors: Tensors) -> BoundPass:
        """See ``Engine.bind``."""
        return _MeteredPass(self._engine.bind(profile, tensors), self._meter)


class _MeteredPass:
    def __init__(self, bound: BoundPass, meter: Meter) -> None:
        self._bound = bound
        self._meter = meter

    def run(self) -> None:
        began = time.perf_counter()
        self._bound.run()
        self._meter.engine += time.perf_counter() - began


class MeteredLibrary(NativeLibrary):
    """The CPU library, its operations timed without the checks that come before them."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(CPU_LIBRARY, REBUILD)
        self._meter = meter

    def call(self, operation: str, *arguments: object) -> None:
        """See ``NativeLibrary.call``."""
        began = time.perf_counter()
        super().call(operation, *arguments)
        self._meter.kernels[operation] += time.perf_counter() - began
