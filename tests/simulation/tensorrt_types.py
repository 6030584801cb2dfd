"""Enumerations, shapes and loggers of the TensorRT stand-ins; a test compares them with the installed module."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import ml_dtypes
import numpy as np
import onnx


class DataType(IntEnum):
    FLOAT = 0
    HALF = 1
    INT8 = 2
    INT32 = 3
    BOOL = 4
    UINT8 = 5
    BF16 = 7
    INT64 = 8


NUMPY_TYPES: dict[DataType, np.dtype[Any]] = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.HALF: np.dtype(np.float16),
    DataType.INT8: np.dtype(np.int8),
    DataType.INT32: np.dtype(np.int32),
    DataType.BOOL: np.dtype(np.bool_),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.BF16: np.dtype(ml_dtypes.bfloat16),
    DataType.INT64: np.dtype(np.int64),
}
ONNX_TYPES = {
    onnx.TensorProto.FLOAT: DataType.FLOAT,
    onnx.TensorProto.FLOAT16: DataType.HALF,
    onnx.TensorProto.INT8: DataType.INT8,
    onnx.TensorProto.INT32: DataType.INT32,
    onnx.TensorProto.BOOL: DataType.BOOL,
    onnx.TensorProto.UINT8: DataType.UINT8,
    onnx.TensorProto.BFLOAT16: DataType.BF16,
    onnx.TensorProto.INT64: DataType.INT64,
}


class TensorIOMode(IntEnum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(IntEnum):
    DEVICE = 0
    HOST = 1


class ExecutionContextAllocationStrategy(IntEnum):
    STATIC = 0
    ON_PROFILE_CHANGE = 1
    USER_MANAGED = 2


class DynamicShapesKernelSpecializationStrategy(IntEnum):
    LAZY = 0
    EAGER = 1
    NONE = 2


class CudaGraphStrategy(IntEnum):
    DISABLED = 0
    WHOLE_GRAPH_CAPTURE = 1


class NetworkDefinitionCreationFlag(IntEnum):
    STRONGLY_TYPED = 0


class MemoryPoolType(IntEnum):
    WORKSPACE = 0
    TACTIC_DRAM = 4
    TACTIC_SHARED_MEMORY = 5


class BuilderFlag(IntEnum):
    DEBUG = 2
    TF32 = 6
    VERSION_COMPATIBLE = 12
    EXCLUDE_LEAN_RUNTIME = 13


class HardwareCompatibilityLevel(IntEnum):
    NONE = 0
    AMPERE_PLUS = 1
    SAME_COMPUTE_CAPABILITY = 2


class ComputeCapability(IntEnum):
    NONE = 0
    CURRENT = 1
    SM75 = 75
    SM80 = 80
    SM86 = 86
    SM89 = 89
    SM120 = 120
    SM121 = 121


class ProfilingVerbosity(IntEnum):
    LAYER_NAMES_ONLY = 0
    NONE = 1
    DETAILED = 2


class LayerType(IntEnum):
    """Only what programs look for; every other node is an ``IDENTITY`` here."""

    IDENTITY = 20
    ATTENTION_INPUT = 51
    ATTENTION_OUTPUT = 52
    KV_CACHE_UPDATE = 54


class Dims(tuple[int, ...]):
    """A shape."""

    __slots__ = ()
    MAX_DIMS = 8


class _Severity(IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class ILogger:
    """Base of loggers; like the real one it must be initialised by those who inherit from it."""

    Severity = _Severity
    INTERNAL_ERROR = _Severity.INTERNAL_ERROR
    ERROR = _Severity.ERROR
    WARNING = _Severity.WARNING
    INFO = _Severity.INFO
    VERBOSE = _Severity.VERBOSE

    def __init__(self) -> None:
        self._initialised = True

    def log(self, severity: _Severity, msg: str) -> None:
        """Take a line."""
        raise NotImplementedError


class Logger(ILogger):
    """Prints lines of a severity or worse, labelled as what they are."""

    def __init__(self, min_severity: _Severity = _Severity.WARNING) -> None:
        super().__init__()
        self.min_severity = min_severity

    def log(self, severity: _Severity, msg: str) -> None:
        if severity <= self.min_severity:
            print(f"[simulation of TensorRT] [{severity.name}] {msg}")


def checked_logger(logger: Any) -> ILogger:
    """A logger that was made as TensorRT wants it.

    Raises:
        TypeError: it was not.
    """
    if not isinstance(logger, ILogger):
        raise TypeError(f"incompatible constructor arguments: a logger is required, not {type(logger).__name__}")
    if not getattr(logger, "_initialised", False):
        raise TypeError("ILogger.__init__() must be called when overriding __init__")
    return logger


def volume(shape: tuple[int, ...]) -> int:
    """Elements of a shape."""
    return int(np.prod(shape, dtype=np.int64))


def nptype(trt_type: DataType) -> type[np.generic]:
    """numpy's type of a tensor type; TensorRT has none for bfloat16."""
    if trt_type == DataType.BF16:
        raise TypeError(f"Could not resolve TensorRT datatype to an equivalent numpy datatype: {trt_type}")
    return NUMPY_TYPES[trt_type].type
