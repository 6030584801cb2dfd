"""A stand-in for ``cuda.bindings.runtime``: the functions a runtime like ours calls, over ``device.current()``.

Results are the tuples of cuda-python 13. What depends on the machine (no driver, no memory) is an error code, as in
CUDA; what a correct program never does is a ``SimulationFault``. Enumerations are required where CUDA's are expected:
earlier releases of cuda-python refuse plain integers there.
"""

# ruff: noqa: N802
from __future__ import annotations

from tests.simulation.cuda_arguments import OK, Result, driven, enumerated, integer
from tests.simulation.cuda_memory import (
    cudaFree,
    cudaFreeHost,
    cudaHostAlloc,
    cudaMalloc,
    cudaMallocHost,
    cudaMemcpy,
    cudaMemcpy2D,
    cudaMemcpy2DAsync,
    cudaMemcpyAsync,
    cudaMemset,
    cudaMemsetAsync,
)
from tests.simulation.cuda_types import (
    DESCRIPTIONS,
    cudaDeviceAttr,
    cudaDeviceProp,
    cudaError_t,
    cudaEvent_t,
    cudaEventBlockingSync,
    cudaEventDefault,
    cudaEventDisableTiming,
    cudaGraph_t,
    cudaGraphExec_t,
    cudaHostAllocDefault,
    cudaHostAllocMapped,
    cudaHostAllocPortable,
    cudaMemcpyKind,
    cudaStream_t,
    cudaStreamCaptureMode,
    cudaStreamCaptureStatus,
    cudaStreamDefault,
    cudaStreamNonBlocking,
)
from tests.simulation.cuda_work import (
    cudaEventCreate,
    cudaEventCreateWithFlags,
    cudaEventDestroy,
    cudaEventElapsedTime,
    cudaEventQuery,
    cudaEventRecord,
    cudaEventSynchronize,
    cudaGraphDestroy,
    cudaGraphExecDestroy,
    cudaGraphInstantiate,
    cudaGraphLaunch,
    cudaGraphUpload,
    cudaStreamBeginCapture,
    cudaStreamCreate,
    cudaStreamCreateWithFlags,
    cudaStreamDestroy,
    cudaStreamEndCapture,
    cudaStreamIsCapturing,
    cudaStreamQuery,
    cudaStreamSynchronize,
    cudaStreamWaitEvent,
)
from tests.simulation.device import current

__all__ = [
    "cudaDeviceAttr",
    "cudaDeviceGetAttribute",
    "cudaDeviceProp",
    "cudaDeviceSynchronize",
    "cudaDriverGetVersion",
    "cudaError_t",
    "cudaEventBlockingSync",
    "cudaEventCreate",
    "cudaEventCreateWithFlags",
    "cudaEventDefault",
    "cudaEventDestroy",
    "cudaEventDisableTiming",
    "cudaEventElapsedTime",
    "cudaEventQuery",
    "cudaEventRecord",
    "cudaEventSynchronize",
    "cudaEvent_t",
    "cudaFree",
    "cudaFreeHost",
    "cudaGetDevice",
    "cudaGetDeviceCount",
    "cudaGetDeviceProperties",
    "cudaGetErrorName",
    "cudaGetErrorString",
    "cudaGetLastError",
    "cudaGraphDestroy",
    "cudaGraphExecDestroy",
    "cudaGraphExec_t",
    "cudaGraphInstantiate",
    "cudaGraphLaunch",
    "cudaGraphUpload",
    "cudaGraph_t",
    "cudaHostAlloc",
    "cudaHostAllocDefault",
    "cudaHostAllocMapped",
    "cudaHostAllocPortable",
    "cudaMalloc",
    "cudaMallocHost",
    "cudaMemGetInfo",
    "cudaMemcpy",
    "cudaMemcpy2D",
    "cudaMemcpy2DAsync",
    "cudaMemcpyAsync",
    "cudaMemcpyKind",
    "cudaMemset",
    "cudaMemsetAsync",
    "cudaPeekAtLastError",
    "cudaRuntimeGetVersion",
    "cudaSetDevice",
    "cudaStreamBeginCapture",
    "cudaStreamCaptureMode",
    "cudaStreamCaptureStatus",
    "cudaStreamCreate",
    "cudaStreamCreateWithFlags",
    "cudaStreamDefault",
    "cudaStreamDestroy",
    "cudaStreamEndCapture",
    "cudaStreamIsCapturing",
    "cudaStreamNonBlocking",
    "cudaStreamQuery",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
    "cudaStream_t",
]


@driven(results=1)
def cudaGetDeviceCount() -> Result:
    return OK, current().settings.devices


@driven()
def cudaSetDevice(device: int) -> Result:
    return (OK if 0 <= integer(device) < current().settings.devices else cudaError_t.cudaErrorInvalidDevice,)


@driven(results=1)
def cudaGetDevice() -> Result:
    return OK, 0


@driven(results=1)
def cudaGetDeviceProperties(device: int) -> Result:
    settings = current().settings
    if not 0 <= integer(device) < settings.devices:
        return cudaError_t.cudaErrorInvalidDevice, None
    found = cudaDeviceProp()
    found.name = settings.name.encode()
    found.major, found.minor = settings.capability
    found.totalGlobalMem = settings.memory
    found.multiProcessorCount = 1
    return OK, found


@driven(results=1)
def cudaDeviceGetAttribute(attr: cudaDeviceAttr, device: int) -> Result:
    settings = current().settings
    if not 0 <= integer(device) < settings.devices:
        return cudaError_t.cudaErrorInvalidDevice, None
    values = {
        cudaDeviceAttr.cudaDevAttrMaxThreadsPerBlock: 1024,
        cudaDeviceAttr.cudaDevAttrMaxSharedMemoryPerBlock: 49152,
        cudaDeviceAttr.cudaDevAttrWarpSize: 32,
        cudaDeviceAttr.cudaDevAttrMultiProcessorCount: 1,
        cudaDeviceAttr.cudaDevAttrComputeCapabilityMajor: settings.capability[0],
        cudaDeviceAttr.cudaDevAttrComputeCapabilityMinor: settings.capability[1],
    }
    return OK, values[enumerated(attr, cudaDeviceAttr)]


def cudaDriverGetVersion() -> Result:
    return OK, 13000 if current().settings.driver else 0


def cudaRuntimeGetVersion() -> Result:
    return OK, 13000


@driven(results=2)
def cudaMemGetInfo() -> Result:
    device = current()
    return OK, device.settings.memory - device.used, device.settings.memory


@driven()
def cudaDeviceSynchronize() -> Result:
    device = current()
    device.forbid_in_capture("cudaDeviceSynchronize")
    device.counts.synchronisations += 1
    device.drain_all()
    return (OK,)


def cudaGetErrorString(error: cudaError_t) -> Result:
    return OK, DESCRIPTIONS.get(int(error), "unrecognized error code").encode()


def cudaGetErrorName(error: cudaError_t) -> Result:
    known = int(error) in DESCRIPTIONS
    return OK, (cudaError_t(int(error)).name if known else "unrecognized error code").encode()


@driven()
def cudaGetLastError() -> Result:
    return (OK,)


@driven()
def cudaPeekAtLastError() -> Result:
    return (OK,)
