"""The running half of the TensorRT stand-ins: ONNX Runtime executes the engine's graph, in stream order."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import onnx
import onnxruntime

from tests.simulation.device import SimulatedDevice, current
from tests.simulation.engine_file import EngineContent, unpacked
from tests.simulation.onnx_graph import OnnxGraph, Tensor
from tests.simulation.streams import Lifetime
from tests.simulation.tensorrt_context import IExecutionContext
from tests.simulation.tensorrt_types import (
    NUMPY_TYPES,
    CudaGraphStrategy,
    DataType,
    Dims,
    DynamicShapesKernelSpecializationStrategy,
    ExecutionContextAllocationStrategy,
    ILogger,
    TensorIOMode,
    TensorLocation,
    checked_logger,
    volume,
)

_ERRORS_ONLY = 3


class Runtime:
    """Opens engines. ``module`` and ``version`` are those of the stand-in module it belongs to."""

    __slots__ = ("_device", "engine_host_code_allowed", "logger")
    module = ""
    version = ""

    def __init__(self, logger: ILogger) -> None:
        self.logger = checked_logger(logger)
        self.engine_host_code_allowed = False
        self._device = current()
        if not (self._device.settings.driver and self._device.settings.devices):
            raise self._device.fault("a Runtime was made without a driver; real TensorRT would crash the process")

    def deserialize_cuda_engine(self, serialized_engine: Any) -> ICudaEngine | None:
        content = unpacked(bytes(serialized_engine))
        reason = content if isinstance(content, str) else self._other_build(content)
        if reason is not None:
            self.logger.log(ILogger.ERROR, f"{reason} (simulation)")
            return None
        assert isinstance(content, EngineContent)
        loaded = LoadedEngine(self._device, content)
        if not self._device.reserve(len(content.model), loaded.lifetime):
            self.logger.log(ILogger.ERROR, "CUDA error: out of memory (simulation)")
            return None
        return ICudaEngine(loaded, self.logger)

    def _other_build(self, content: EngineContent) -> str | None:
        if content.version_compatible and not self.engine_host_code_allowed:
            return "the engine contains host code, which this runtime is not allowed to run"
        later = content.version_compatible and _later_of_same_major(content.version, self.version)
        if content.module != self.module or not (later or content.version == self.version):
            return (
                f"the engine was built by {content.module} {content.version}, "
                f"this is {self.module} {self.version}: version tags do not match"
            )
        return None


class LoadedEngine:
    """The session of an engine, shared by its contexts and by captured graphs.

    Attributes:
        device: where it runs.
        graph: its tensors.
        profiles: ranges of the inputs, per profile.
        lifetime: ends with the last Python reference to the engine.
    """

    def __init__(self, device: SimulatedDevice, content: EngineContent) -> None:
        model = onnx.load_from_string(content.model)
        self.device = device
        self.graph = OnnxGraph(model)
        self.profiles = content.profiles
        self.lifetime = Lifetime(f"engine {model.graph.name!r}")
        if any(tensor.dtype == DataType.BF16 for tensor in self.graph.tensors.values()):
            raise device.fault("ONNX Runtime's CPU has no bfloat16 kernels: the simulation runs fp32 and fp16 only")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ERRORS_ONLY
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(content.model, options, providers=["CPUExecutionProvider"])

    @property
    def scratch(self) -> int:
        """Bytes of activations that a context needs; any number that is not nothing would do."""
        elements = sum(volume(high) for profile in self.profiles for _, _, high in profile.values())
        return 4 * elements

    def bound(self, tensors: dict[str, tuple[tuple[int, ...], int]]) -> Callable[[], None]:
        """A run over fixed shapes and addresses."""
        binding = self.session.io_binding()
        for name, (shape, address) in tensors.items():
            tensor = self.graph.tensors[name]
            bind = binding.bind_input if tensor.is_input else binding.bind_output
            bind(name, "cpu", 0, NUMPY_TYPES[tensor.dtype].type, shape, address)

        def run() -> None:
            try:
                self.session.run_with_iobinding(binding)
            except Exception as fault:  # ONNX Runtime has no common base class
                raise self.device.fault(f"ONNX Runtime failed: {' '.join(str(fault).split())}") from fault

        return run


class IRuntimeConfig:
    """How contexts of TensorRT for RTX behave."""

    __slots__ = ("_strategy", "cuda_graph_strategy", "dynamic_shapes_kernel_specialization_strategy")

    def __init__(self) -> None:
        self._strategy = ExecutionContextAllocationStrategy.STATIC
        self.cuda_graph_strategy = CudaGraphStrategy.DISABLED
        self.dynamic_shapes_kernel_specialization_strategy = DynamicShapesKernelSpecializationStrategy.LAZY

    def set_execution_context_allocation_strategy(self, strategy: ExecutionContextAllocationStrategy) -> None:
        self._strategy = ExecutionContextAllocationStrategy(strategy)

    def get_execution_context_allocation_strategy(self) -> ExecutionContextAllocationStrategy:
        return self._strategy


class ICudaEngine:
    """An engine that was opened."""

    __slots__ = ("__weakref__", "_loaded", "_logger")

    def __init__(self, loaded: LoadedEngine, logger: ILogger) -> None:
        self._loaded = loaded
        self._logger = logger
        weakref.finalize(self, end, loaded.device, loaded.lifetime)

    @property
    def num_io_tensors(self) -> int:
        return len(self._loaded.graph.tensors)

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._loaded.profiles)

    @property
    def device_memory_size_v2(self) -> int:
        return self._loaded.scratch

    @property
    def name(self) -> str:
        return str(self._loaded.lifetime.name)

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        return self._loaded.scratch

    def get_tensor_name(self, index: int) -> str:
        return list(self._loaded.graph.tensors)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if self._tensor(name).is_input else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> DataType:
        return self._tensor(name).dtype

    def get_tensor_shape(self, name: str) -> Dims:
        return self._tensor(name).shape

    def get_tensor_location(self, name: str) -> TensorLocation:
        self._tensor(name)
        return TensorLocation.DEVICE

    def is_shape_inference_io(self, name: str) -> bool:
        self._tensor(name)
        return False

    def get_aliased_input_tensor(self, name: str) -> str | None:
        return self._loaded.graph.aliases.get(name)

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Dims]:
        tensor = self._tensor(name)
        if not tensor.is_input or not 0 <= profile_index < len(self._loaded.profiles):
            raise self._loaded.device.fault(f"get_tensor_profile_shape({name!r}, {profile_index}): no such profile")
        ranges = self._loaded.profiles[profile_index].get(name, (tensor.shape,) * 3)
        return [Dims(shape) for shape in ranges]

    def create_runtime_config(self) -> IRuntimeConfig:
        return IRuntimeConfig()

    def create_execution_context(
        self, strategy: ExecutionContextAllocationStrategy | IRuntimeConfig = ExecutionContextAllocationStrategy.STATIC
    ) -> IExecutionContext | None:
        if isinstance(strategy, IRuntimeConfig):
            strategy = strategy.get_execution_context_allocation_strategy()
        device = self._loaded.device
        device.forbid_in_capture("create_execution_context")
        own = ExecutionContextAllocationStrategy(strategy) == ExecutionContextAllocationStrategy.USER_MANAGED
        lifetime = Lifetime(f"an execution context of {self._loaded.lifetime.name}")
        if not device.reserve(0 if own else self._loaded.scratch, lifetime):
            self._logger.log(ILogger.ERROR, "CUDA error: out of memory (simulation)")
            return None
        context = IExecutionContext(self, self._loaded, lifetime, needs_memory=own)
        weakref.finalize(context, end, device, lifetime)
        return context

    def _tensor(self, name: str) -> Tensor:
        tensor = self._loaded.graph.tensors.get(name)
        if tensor is None:
            raise self._loaded.device.fault(f"the engine has no tensor {name!r}")
        return tensor


def _later_of_same_major(built: str, here: str) -> bool:
    older, newer = ([int(part) for part in version.split(".")] for version in (built, here))
    return older[0] == newer[0] and older <= newer


def end(device: SimulatedDevice, lifetime: Lifetime) -> None:
    """What happens when the last reference to an engine or a context goes."""
    lifetime.alive = False
    device.reserved.pop(lifetime, None)
