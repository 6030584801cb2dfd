"""The building half of the TensorRT stand-ins: a graph is parsed, given profiles, and packed into an engine file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from tests.simulation.engine_file import EngineContent, Ranges, packed
from tests.simulation.onnx_graph import OnnxGraph
from tests.simulation.tensorrt_types import (
    BuilderFlag,
    ComputeCapability,
    DataType,
    Dims,
    HardwareCompatibilityLevel,
    ILogger,
    LayerType,
    MemoryPoolType,
    ProfilingVerbosity,
    checked_logger,
)

_LAYERS = {"Attention": LayerType.ATTENTION_INPUT, "TensorScatter": LayerType.KV_CACHE_UPDATE}
_DOMAINS = ("", "ai.onnx", "trt.plugins")


class ITensor:
    """An input or output of a network."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, dtype: DataType, shape: Dims) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape


class ILayer:
    """A node."""

    def __init__(self, name: str, kind: LayerType, dtype: DataType | None) -> None:
        self.name, self.type = name, kind
        self._dtype = dtype
        self._decomposable = False


class _Attention:
    """The attention that an ATTENTION_INPUT layer begins."""

    __slots__ = ("_layer",)

    def __init__(self, layer: ILayer) -> None:
        self._layer = layer

    @property
    def decomposable(self) -> bool:
        return self._layer._decomposable

    @decomposable.setter
    def decomposable(self, value: bool) -> None:
        self._layer._decomposable = value


class IAttentionInputLayer(ILayer):
    """What an ATTENTION_INPUT layer becomes when its ``__class__`` is set."""

    @property
    def attention(self) -> _Attention:
        """The attention it belongs to."""
        return _Attention(self)


class INetworkDefinition:
    """A network, filled by a parser."""

    __slots__ = ("_graph", "_layers", "_model", "name")

    def __init__(self) -> None:
        self.name = ""
        self._model: onnx.ModelProto | None = None
        self._graph: OnnxGraph | None = None
        self._layers: list[ILayer] = []

    @property
    def num_inputs(self) -> int:
        return len(self._graph.inputs) if self._graph else 0

    @property
    def num_outputs(self) -> int:
        return len(self._graph.outputs) if self._graph else 0

    @property
    def num_layers(self) -> int:
        return len(self._layers)

    def get_input(self, index: int) -> ITensor | None:
        return self._tensor(self._graph.inputs if self._graph else [], index)

    def get_output(self, index: int) -> ITensor | None:
        return self._tensor(self._graph.outputs if self._graph else [], index)

    def get_layer(self, index: int) -> ILayer:
        return self._layers[index]

    @staticmethod
    def _tensor(tensors: list[Any], index: int) -> ITensor | None:
        if not 0 <= index < len(tensors):
            return None
        return ITensor(tensors[index].name, tensors[index].dtype, tensors[index].shape)


class ParserError:
    """Why a parser refused."""

    __slots__ = ("_desc", "_name", "_node", "_operator")

    def __init__(self, desc: str, node: int = -1, name: str = "", operator: str = "") -> None:
        self._desc, self._node, self._name, self._operator = desc, node, name, operator

    def desc(self) -> str:
        return self._desc

    def node(self) -> int:
        return self._node

    def node_name(self) -> str:
        return self._name

    def node_operator(self) -> str:
        return self._operator


class OnnxParser:
    """Reads ONNX; refuses what TensorRT was seen to refuse in graphs like ours."""

    __slots__ = ("_errors", "_network")

    def __init__(self, network: INetworkDefinition, logger: ILogger) -> None:
        checked_logger(logger)
        self._network = network
        self._errors: list[ParserError] = []

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]

    def clear_errors(self) -> None:
        self._errors.clear()

    def parse_from_file(self, model: str) -> bool:
        if not Path(model).is_file():
            self._errors.append(ParserError(f"Failed to open file: {model}"))
            return False
        return self._take(onnx.load(model))

    def _take(self, model: onnx.ModelProto) -> bool:
        graph = OnnxGraph(model)
        for index, node in enumerate(model.graph.node):
            if reason := _refused(node, graph):
                self._errors.append(ParserError(reason, index, node.name, node.op_type))
        if self._errors:
            return False
        network = self._network
        types = {tensor.name: tensor.dtype for tensor in graph.tensors.values()}
        inferred = onnx.shape_inference.infer_shapes(model)
        for info in inferred.graph.value_info:
            if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
                types[info.name] = DataType.FLOAT
        network._model, network._graph, network.name = model, graph, model.graph.name
        network._layers = [
            ILayer(node.name, _LAYERS.get(node.op_type, LayerType.IDENTITY), types.get(node.output[0]))
            for node in model.graph.node
        ]
        return True


def _refused(node: onnx.NodeProto, graph: OnnxGraph) -> str | None:
    if node.domain not in _DOMAINS:
        return f"no importer registered for op {node.op_type} of domain {node.domain}"
    if node.op_type == "Attention" and len([name for name in node.output if name]) > 1:
        return "TensorRT only supports Attention nodes with one output"
    if node.op_type == "TensorScatter":
        cache = graph.tensors.get(node.input[0])
        if cache is None or node.output[0] not in graph.tensors:
            return "The KV cache tensor must be a network input and output"
        if cache.shape[2] < 0:
            return "The KV cache tensor must have a static sequence length dimension"
    if node.op_type == "ScatterElements" and any(each.name == "reduction" for each in node.attribute):
        return "Unsupported reduction type"
    return None


class IOptimizationProfile:
    """Ranges of inputs; like the real one it does not check their order."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: Ranges = {}

    def set_shape(self, input: str, min: Any, opt: Any, max: Any) -> None:
        low, usual, high = tuple(min), tuple(opt), tuple(max)
        if not len(low) == len(usual) == len(high):
            raise ValueError(f"the ranges of {input} differ in rank")
        self._ranges[input] = (low, usual, high)

    def get_shape(self, input: str) -> list[Dims]:
        return [Dims(shape) for shape in self._ranges.get(input, ())]

    def __bool__(self) -> bool:
        return True


class ITimingCache:
    """Bytes; nothing is timed in a simulation."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def serialize(self) -> bytes:
        return self._content or b"simulated timing cache"


class IBuilderConfig:
    """What a build is told."""

    __slots__ = (
        "_capabilities",
        "_flags",
        "_pools",
        "_profiles",
        "_timing_cache",
        "builder_optimization_level",
        "hardware_compatibility_level",
        "profiling_verbosity",
        "progress_monitor",
    )

    def __init__(self) -> None:
        self._profiles: list[IOptimizationProfile] = []
        self._flags = {BuilderFlag.TF32}
        self._pools: dict[MemoryPoolType, int] = {}
        self._capabilities: list[ComputeCapability] = []
        self._timing_cache: ITimingCache | None = None
        self.builder_optimization_level = 3
        self.hardware_compatibility_level = HardwareCompatibilityLevel.NONE
        self.profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self.progress_monitor: IProgressMonitor | None = None

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._profiles)

    @property
    def num_compute_capabilities(self) -> int:
        return len(self._capabilities)

    @num_compute_capabilities.setter
    def num_compute_capabilities(self, value: int) -> None:
        self._capabilities = [ComputeCapability.NONE] * value

    def set_compute_capability(self, compute_capability: ComputeCapability, index: int) -> bool:
        fits = 0 <= index < len(self._capabilities) and compute_capability != ComputeCapability.NONE
        if fits:
            self._capabilities[index] = compute_capability
        return fits

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        self._profiles.append(profile)
        return len(self._profiles) - 1

    def set_flag(self, flag: BuilderFlag) -> None:
        self._flags.add(BuilderFlag(flag))

    def clear_flag(self, flag: BuilderFlag) -> None:
        self._flags.discard(BuilderFlag(flag))

    def get_flag(self, flag: BuilderFlag) -> bool:
        return flag in self._flags

    def set_memory_pool_limit(self, pool: MemoryPoolType, pool_size: int) -> None:
        self._pools[MemoryPoolType(pool)] = int(pool_size)

    def get_memory_pool_limit(self, pool: MemoryPoolType) -> int:
        return self._pools.get(pool, 0)

    def create_timing_cache(self, serialized_timing_cache: Any) -> ITimingCache:
        return ITimingCache(bytes(serialized_timing_cache))

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
        self._timing_cache = cache
        return True

    def get_timing_cache(self) -> ITimingCache | None:
        return self._timing_cache


class IProgressMonitor:
    """Base of what hears of a build."""

    def __init__(self) -> None:
        self._initialised = True

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        raise NotImplementedError

    def step_complete(self, phase_name: str, step: int) -> bool:
        raise NotImplementedError

    def phase_finish(self, phase_name: str) -> None:
        raise NotImplementedError


class IHostMemory(bytes):
    """A serialized engine."""

    @property
    def nbytes(self) -> int:
        return len(self)


class Builder:
    """Makes engines. ``module`` and ``version`` are those of the stand-in module it belongs to."""

    __slots__ = ("logger",)
    module = ""
    version = ""

    def __init__(self, logger: ILogger) -> None:
        self.logger = checked_logger(logger)

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        int(flags)
        return INetworkDefinition()

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig()

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile()

    def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> IHostMemory | None:
        if reason := self._unbuildable(network, config) or self._interrupted(config.progress_monitor):
            self.logger.log(ILogger.ERROR, reason)
            return None
        assert network._model is not None
        profiles = tuple(profile._ranges for profile in config._profiles)
        model, portable = network._model.SerializeToString(), config.get_flag(BuilderFlag.VERSION_COMPATIBLE)
        content = EngineContent(self.module, self.version, profiles, model, portable)
        return IHostMemory(packed(content))

    @staticmethod
    def _unbuildable(network: INetworkDefinition, config: IBuilderConfig) -> str | None:
        if network._graph is None:
            return "the network is empty"
        for layer in network._layers:
            undecided = layer.type == LayerType.ATTENTION_INPUT and not layer._decomposable
            if undecided and layer._dtype == DataType.FLOAT:
                return f"{layer.name}: no fused kernel for fp32 attention, and it is not decomposable"
        for number, profile in enumerate(config._profiles):
            for tensor in network._graph.inputs:
                ranges = profile._ranges.get(tensor.name)
                if ranges is None:
                    if -1 in tensor.shape:
                        return f"profile {number}: the dynamic input {tensor.name} has no range"
                elif any(not _fits(shape, tensor.shape) for shape in ranges):
                    return f"profile {number}: the range of {tensor.name} contradicts its shape {tensor.shape}"
        if not config._profiles and any(-1 in tensor.shape for tensor in network._graph.inputs):
            return "the network has dynamic inputs, and there is no optimization profile"
        return None

    @staticmethod
    def _interrupted(monitor: IProgressMonitor | None) -> str | None:
        if monitor is None:
            return None
        name = "Building (simulation)"
        monitor.phase_start(name, None, 2)
        steps = [monitor.step_complete(name, step) for step in range(2)]
        monitor.phase_finish(name)
        return None if all(steps) else "the build was interrupted"


def _fits(shape: tuple[int, ...], declared: Dims) -> bool:
    same_rank = len(shape) == len(declared)
    return same_rank and all(size in (-1, given) for size, given in zip(declared, shape, strict=True))
