"""Enumerations and handles of ``cuda.bindings.runtime``, as far as a runtime like ours needs them.

A test compares every member with the real module.
"""

# ruff: noqa: N801, N815, N816
from __future__ import annotations

from enum import IntEnum


class cudaError_t(IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInsufficientDriver = 35
    cudaErrorNoDevice = 100
    cudaErrorInvalidDevice = 101
    cudaErrorInvalidResourceHandle = 400
    cudaErrorNotReady = 600
    cudaErrorIllegalAddress = 700
    cudaErrorStreamCaptureUnsupported = 900


DESCRIPTIONS = {
    0: "no error",
    1: "invalid argument",
    2: "out of memory",
    35: "CUDA driver version is insufficient for CUDA runtime version",
    100: "no CUDA-capable device is detected",
    101: "invalid device ordinal",
    400: "invalid resource handle",
    600: "device not ready",
    700: "an illegal memory access was encountered",
    900: "operation not permitted when stream is capturing",
}


class cudaMemcpyKind(IntEnum):
    cudaMemcpyHostToHost = 0
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class cudaStreamCaptureMode(IntEnum):
    cudaStreamCaptureModeGlobal = 0
    cudaStreamCaptureModeThreadLocal = 1
    cudaStreamCaptureModeRelaxed = 2


class cudaStreamCaptureStatus(IntEnum):
    cudaStreamCaptureStatusNone = 0
    cudaStreamCaptureStatusActive = 1
    cudaStreamCaptureStatusInvalidated = 2


class cudaDeviceAttr(IntEnum):
    cudaDevAttrMaxThreadsPerBlock = 1
    cudaDevAttrMaxSharedMemoryPerBlock = 8
    cudaDevAttrWarpSize = 10
    cudaDevAttrMultiProcessorCount = 16
    cudaDevAttrComputeCapabilityMajor = 75
    cudaDevAttrComputeCapabilityMinor = 76


cudaStreamDefault = 0
cudaStreamNonBlocking = 1
cudaEventDefault = 0
cudaEventBlockingSync = 1
cudaEventDisableTiming = 2
cudaHostAllocDefault = 0
cudaHostAllocPortable = 1
cudaHostAllocMapped = 2


class Handle:
    """An opaque pointer; ``int`` gives its value."""

    __slots__ = ("_value",)

    def __init__(self, init_value: int = 0) -> None:
        self._value = int(init_value)

    def __int__(self) -> int:
        return self._value

    def __index__(self) -> int:
        return self._value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and int(other) == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._value:#x} of the simulation>"


class cudaStream_t(Handle):
    """A stream."""


class cudaEvent_t(Handle):
    """An event."""


class cudaGraph_t(Handle):
    """A graph."""


class cudaGraphExec_t(Handle):
    """An executable graph."""


class cudaDeviceProp:
    """The properties of a device that programs ask for."""

    def __init__(self) -> None:
        self.name = b""
        self.major = 0
        self.minor = 0
        self.totalGlobalMem = 0
        self.multiProcessorCount = 0
        self.warpSize = 32
        self.sharedMemPerBlock = 49152
        self.maxThreadsPerBlock = 1024
        self.integrated = 0
