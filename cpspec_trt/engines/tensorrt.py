"""TensorRT and TensorRT for RTX: passes over device memory, enqueued on the device's stream.

The two flavours have the same face. What differs: TensorRT for RTX compiles its kernels when it runs. Of a pass that
will be captured it compiles those of its shape at once, before the capture. Other passes, whose shapes come with the
requests, keep to general kernels: compiling would hold a request up, and compiled beside it the same prompt would round
one way before and another way after, so that the same request gave other codes the second time.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cpspec_trt.devices.arrays import DeviceArray, dtype_named
from cpspec_trt.devices.device import Device
from cpspec_trt.engines.engine import check_tensors
from cpspec_trt.engines.environment import MODULES, check_runnable, tensorrt_module
from cpspec_trt.errors import EngineError
from cpspec_trt.files.manifest import Manifest, ProfileName, TensorInfo, check_files, read_manifest
from cpspec_trt.files.rebuild import FULL, RTX, rebuild_command

DeviceTensors = Mapping[str, DeviceArray]

_PROFILE_ORDER: tuple[ProfileName, ...] = ("context", "generation")  # in which the builder adds them
_DTYPES = {
    "FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16", "INT64": "int64", "INT32": "int32", "BOOL": "bool"
}  # fmt: skip
_FREE = "if its memory is full, end other programs on the GPU; or"
_SHOWN = 5  # lines of TensorRT in a message


class TensorRTPass:
    """One pass over fixed device memory (see ``engines.engine.BoundPass``)."""

    __slots__ = ("_context", "_device", "_tensors", "_what")

    def __init__(self, context: _Context, device: Device, tensors: DeviceTensors, what: str) -> None:
        self._context = context
        self._device = device
        self._tensors = dict(tensors)
        self._what = what

    def run(self) -> None:
        """Put the pass into the stream; it can be captured if it ran once before.

        Raises:
            EngineError: TensorRT refused; its messages are part of the error.
        """
        self._context.enqueue(self._tensors, self._what)
        self._device.count_pass()


class TensorRTEngine:
    """A deserialized engine with its manifest, over the memory of one device."""

    def __init__(self, directory: Path, device: Device) -> None:
        """Load the engine of a directory.

        Args:
            directory: holds ``engine_manifest.json`` and the engine's file.
            device: where it runs; it frees the engine when it closes.

        Raises:
            EngineError: no or damaged manifest, another backend's engine, a missing, truncated or changed file, an
                engine of other tensors than the manifest lists, or TensorRT cannot load it.
        """
        self.manifest = read_manifest(directory)
        self.device = device
        if self.manifest.backend not in MODULES:
            found, known = self.manifest.backend, " or ".join(MODULES)
            remedy = _rebuild(directory, self.manifest, FULL)
            raise EngineError(f"{directory}: the engine was built for the backend {found!r}, not {known}; {remedy}")
        check_runnable(directory, self.manifest)
        check_files(directory, self.manifest)
        path = directory / self.manifest.files[0].name
        self._loaded = _Loaded(self.manifest, path, device.stream)
        device.on_close(self._loaded.close)
        self._loaded.check(self.manifest, path)
        self._scratch = device.array((max(self._loaded.scratch_bytes, 1),), dtype_named("uint8"))
        self._contexts: dict[ProfileName, _Context] = {}

    def bind(self, profile: ProfileName, tensors: DeviceTensors, captured: bool = False) -> TensorRTPass:
        """Bind every input and output by name to arrays that live as long as the device.

        An output bound to the memory of an input is updated in place (KV caches).

        Args:
            profile: which profile admits the shapes.
            tensors: an array for every input and output.
            captured: the pass will be captured into a graph. Such a pass gets an execution context of its own, since
                TensorRT forbids to change one that a graph was captured from. The others share one per profile.

        Raises:
            EngineError: a name is missing or unknown, or a dtype or shape lies outside the profile.
        """
        check_tensors(self.manifest, profile, tensors)
        what = f"{self.manifest.component} engine, {profile} profile"
        context = None if captured else self._contexts.get(profile)
        if context is None:
            context = self._loaded.context(_PROFILE_ORDER.index(profile), self._scratch, what, captured)
            if not captured:
                self._contexts[profile] = context
        return TensorRTPass(context, self.device, tensors, what)


class _Loaded:
    """What TensorRT holds for an engine. It does not know the device, which frees it (see ``Device.on_close``)."""

    def __init__(self, manifest: Manifest, path: Path, stream: int) -> None:
        self._trt = tensorrt_module(manifest.backend)
        self._is_rtx = manifest.backend == RTX
        self._stream = stream
        self._rebuild = _rebuild(path.parent, manifest)
        self._inputs = frozenset(info.name for info in manifest.inputs)
        self._log = _Log()
        self._logger = _logger(self._trt, self._log)
        self._runtime: Any = self._trt.Runtime(self._logger)
        if manifest.build is not None and manifest.build.version_compatible:
            # Such an engine carries the runtime that opens it, and TensorRT runs code of an engine only where told to.
            self._runtime.engine_host_code_allowed = True
        self._engine: Any = None
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            self._engine = self._runtime.deserialize_cuda_engine(content)
        self._open: list[_Context] = []
        if self._engine is None:
            raise EngineError(f"{path}: TensorRT cannot load it{self._log.said()}; {_FREE} {self._rebuild}")

    @property
    def scratch_bytes(self) -> int:
        """Activation memory of any one pass. Passes follow one another in one stream, so they share it."""
        return int(self._engine.device_memory_size_v2)

    def check(self, manifest: Manifest, path: Path) -> None:
        """Compare names, dtypes and profiles of the engine with the manifest.

        Raises:
            EngineError: they are of different builds.
        """
        engine, mode = self._engine, self._trt.TensorIOMode
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        self._same(path, "tensors", sorted(names), sorted(info.name for info in (*manifest.inputs, *manifest.outputs)))
        self._same(path, "profiles", engine.num_optimization_profiles, len(_PROFILE_ORDER))
        for kind, infos in ((mode.INPUT, manifest.inputs), (mode.OUTPUT, manifest.outputs)):
            for info in infos:
                self._same(path, f"mode of {info.name}", engine.get_tensor_mode(info.name), kind)
                self._same(path, f"dtype of {info.name}", self._dtype(info), info.dtype)
        for index, profile in enumerate(_PROFILE_ORDER):
            for name, found in manifest.profile(profile).inputs.items():
                shapes = [tuple(shape) for shape in engine.get_tensor_profile_shape(name, index)]
                self._same(path, f"{profile} profile of {name}", shapes, [found.min, found.opt, found.max])

    def context(self, profile: int, scratch: DeviceArray, what: str, captured: bool) -> _Context:
        """A new execution context that stays in one profile."""
        context = self._created(captured)
        if context is None:
            reason = f"TensorRT cannot create an execution context{self._log.said()}"
            raise EngineError(f"{what}: {reason}; {_FREE} {self._rebuild}")
        context.set_device_memory(scratch.address, scratch.nbytes)
        if not context.set_optimization_profile_async(profile, self._stream):
            raise EngineError(f"{what}: TensorRT does not take the profile{self._log.said()}; {self._rebuild}")
        self._open.append(_Context(context, self._inputs, self._stream, self._log))
        return self._open[-1]

    def close(self) -> None:
        """Let go of everything, contexts first."""
        for context in self._open:
            context.close()
        self._engine = self._runtime = None

    def _created(self, captured: bool) -> Any:
        own = self._trt.ExecutionContextAllocationStrategy.USER_MANAGED
        if not self._is_rtx:
            return self._engine.create_execution_context(own)
        config = self._engine.create_runtime_config()
        config.set_execution_context_allocation_strategy(own)
        kinds = self._trt.DynamicShapesKernelSpecializationStrategy
        config.dynamic_shapes_kernel_specialization_strategy = kinds.EAGER if captured else kinds.NONE
        return self._engine.create_execution_context(config)

    def _dtype(self, info: TensorInfo) -> str:
        name = str(self._engine.get_tensor_dtype(info.name).name)
        return _DTYPES.get(name, name)

    def _same(self, path: Path, what: str, found: object, expected: object) -> None:
        if found != expected:
            raise EngineError(f"{path}: {what}: the engine has {found}, its manifest {expected}; {self._rebuild}")


class _Context:
    """An execution context in one profile, and the tensors it is set to."""

    def __init__(self, context: Any, inputs: frozenset[str], stream: int, log: _Log) -> None:
        self._context = context
        self._inputs = inputs
        self._stream = stream
        self._log = log
        self._set: DeviceTensors | None = None

    def enqueue(self, tensors: DeviceTensors, what: str) -> None:
        """Enqueue a pass over ``tensors``; addresses and shapes are set where another pass ran last."""
        if tensors is not self._set:
            self._apply(tensors, what)
        if not self._context.execute_async_v3(self._stream):
            raise EngineError(f"{what}: TensorRT cannot run the pass{self._log.said()}")

    def close(self) -> None:
        """Let go of the context."""
        self._context = None

    def _apply(self, tensors: DeviceTensors, what: str) -> None:
        self._set = None
        for name, array in tensors.items():
            fits = self._context.set_tensor_address(name, array.address)
            if fits and name in self._inputs:
                fits = self._context.set_input_shape(name, array.shape)
            if not fits:
                raise EngineError(f"{what}: TensorRT refuses tensor {name!r} of shape {array.shape}{self._log.said()}")
        if missing := self._context.infer_shapes():
            raise EngineError(f"{what}: TensorRT misses the shape of {', '.join(missing)}{self._log.said()}")
        self._set = tensors


def _rebuild(directory: Path, manifest: Manifest, backend: str | None = None) -> str:
    return f"rebuild it with {rebuild_command(directory, manifest, backend)}"


class _Log:
    """The errors TensorRT reported since they were last told."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Keep a line."""
        self._lines.append(" ".join(line.split()))

    def said(self) -> str:
        """The lines, each once, as the middle of a message; they are forgotten."""
        lines = list(dict.fromkeys(self._lines))[:_SHOWN]
        self._lines.clear()
        return f": {'; '.join(lines)}" if lines else " and gave no reason"


def _logger(trt: Any, log: _Log) -> Any:
    """An ``ILogger`` that keeps errors; its class exists only once the module does."""
    severe = (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR)

    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, line: str) -> None:
            if severity in severe:
                log.add(line)

    return Logger()
