"""ONNX Runtime on the CPU: the embedded backend, used wherever there is no GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

from cpspec_trt.engines.engine import Tensors, check_tensors
from cpspec_trt.errors import EngineError
from cpspec_trt.files.manifest import ProfileName, check_files, read_manifest
from cpspec_trt.files.rebuild import ONNXRUNTIME as BACKEND
from cpspec_trt.files.rebuild import rebuild_command

_ERRORS_ONLY = 3  # ONNX Runtime's log level that keeps warnings off the user's terminal


class OnnxRuntimePass:
    """One bound pass (see ``engines.engine.BoundPass``)."""

    __slots__ = ("_kept", "_run", "_what")

    def __init__(self, run: Callable[[], None], kept: Tensors, what: str) -> None:
        self._run = run
        self._kept = dict(kept)  # the binding holds bare addresses: the arrays must outlive it
        self._what = what

    def run(self) -> None:
        """Run the pass.

        Raises:
            EngineError: ONNX Runtime failed; its message is part of the error.
        """
        try:
            self._run()
        except Exception as fault:  # ONNX Runtime raises a class per status code, without a common base
            raise EngineError(f"{self._what}: ONNX Runtime failed: {_one_line(fault)}") from fault


class OnnxRuntimeEngine:
    """An ONNX Runtime session with its manifest (see ``engines.engine.Engine``)."""

    def __init__(self, directory: Path, threads: int | None = None) -> None:
        """Open the engine of a directory.

        Args:
            directory: holds ``engine_manifest.json`` and the engine's files.
            threads: threads used inside one pass; None lets ONNX Runtime take every core.

        Raises:
            EngineError: no or damaged manifest, missing, truncated or changed files, another backend's engine.
        """
        self.manifest = read_manifest(directory)
        if self.manifest.backend != BACKEND:
            found = self.manifest.backend
            remedy = f"rebuild it with {rebuild_command(directory, self.manifest, BACKEND)}"
            raise EngineError(f"{directory}: the engine was built for the backend {found!r}, not {BACKEND}; {remedy}")
        check_files(directory, self.manifest)
        model = directory / next(file.name for file in self.manifest.files if file.name.endswith(".onnx"))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ERRORS_ONLY
        if threads is not None:
            options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as fault:  # see OnnxRuntimePass.run
            built, here = self.manifest.backend_version, onnxruntime.__version__
            rebuild = rebuild_command(directory, self.manifest)
            remedy = f"it was built with {built}, here is {here}; rebuild it with {rebuild}"
            raise EngineError(f"{model}: ONNX Runtime cannot load it ({_one_line(fault)}); {remedy}") from fault
        self._inputs = frozenset(info.name for info in self.manifest.inputs)

    def bind(self, profile: ProfileName, tensors: Tensors) -> OnnxRuntimePass:
        """See ``engines.engine.Engine.bind``."""
        check_tensors(self.manifest, profile, tensors)
        binding = self._session.io_binding()
        for name, array in tensors.items():
            bind = binding.bind_input if name in self._inputs else binding.bind_output
            bind(name, "cpu", 0, _element_type(array), array.shape, array.ctypes.data)
        what = f"{self.manifest.component} engine, {profile} profile"
        return OnnxRuntimePass(lambda: self._session.run_with_iobinding(binding), tensors, what)


def _element_type(array: np.ndarray) -> type[np.generic]:
    return array.dtype.type


def _one_line(fault: Exception) -> str:
    return " ".join(str(fault).split())
