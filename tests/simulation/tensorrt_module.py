"""Stand-ins for the modules ``tensorrt`` and ``tensorrt_rtx``."""

from __future__ import annotations

from types import ModuleType

from tests.simulation import tensorrt_builder, tensorrt_engine, tensorrt_types
from tests.simulation.tensorrt_context import IExecutionContext

_TYPES = (
    "BuilderFlag",
    "ComputeCapability",
    "DataType",
    "Dims",
    "ExecutionContextAllocationStrategy",
    "HardwareCompatibilityLevel",
    "ILogger",
    "LayerType",
    "Logger",
    "MemoryPoolType",
    "NetworkDefinitionCreationFlag",
    "ProfilingVerbosity",
    "TensorIOMode",
    "TensorLocation",
    "nptype",
    "volume",
)
_RTX_ONLY = ("CudaGraphStrategy", "DynamicShapesKernelSpecializationStrategy")
_BUILDING = (
    "IAttentionInputLayer",
    "IBuilderConfig",
    "IHostMemory",
    "ILayer",
    "INetworkDefinition",
    "IOptimizationProfile",
    "IProgressMonitor",
    "ITensor",
    "ITimingCache",
    "OnnxParser",
    "ParserError",
)
_RUNNING = ("ICudaEngine", "IRuntimeConfig")


def module(name: str, version: str) -> ModuleType:
    """A stand-in; engines that one flavour or version built are refused by another."""
    made = ModuleType(name, f"A simulation of {name} for tests; runs without a GPU.")
    made.__dict__["__version__"] = version
    kinds = _TYPES + (_RTX_ONLY if name == "tensorrt_rtx" else ())
    made.__dict__.update({kind: getattr(tensorrt_types, kind) for kind in kinds})
    made.__dict__.update({kind: getattr(tensorrt_builder, kind) for kind in _BUILDING})
    made.__dict__.update({kind: getattr(tensorrt_engine, kind) for kind in _RUNNING})
    made.__dict__["IExecutionContext"] = IExecutionContext
    of_this = {"__slots__": (), "module": name, "version": version}
    for base in (tensorrt_builder.Builder, tensorrt_engine.Runtime):
        made.__dict__[base.__name__] = type(base.__name__, (base,), dict(of_this))
    return made
