"""The CUDA runtime, the only module that imports ``cuda``: a GPU is looked for, and every call is checked.

``cuda-bindings`` loads without a driver; its calls then fail with a status. So nothing here can crash a machine
that has no GPU: ``probe`` says why there is none, and ``CudaRuntime`` refuses to be made.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from cpspec_trt.errors import EngineError

_MODULE = "cuda.bindings.runtime"
_INSTALL = "install it with: pip install cuda-bindings"
_NO_GPU = {
    35: "the NVIDIA driver is missing or older than the CUDA runtime",
    100: "the driver finds no CUDA device",
}


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a GPU is.

    Attributes:
        name: as the driver calls it.
        compute_capability: for example ``"9.0"``.
        total_memory: bytes.
        free_memory: bytes, when it was asked.
        driver: highest CUDA version the driver serves, for example ``"13.0"``.
    """

    name: str
    compute_capability: str
    total_memory: int
    free_memory: int
    driver: str


def probe(index: int = 0) -> DeviceFacts | str:
    """The GPU of that number, or why there is none; never raises and never loads TensorRT."""
    try:
        runtime = CudaRuntime(index)
        properties = runtime.call("cudaGetDeviceProperties", index)
        free, total = runtime.call("cudaMemGetInfo")
        driver = runtime.call("cudaDriverGetVersion")
    except EngineError as fault:
        return str(fault)
    return DeviceFacts(
        name=properties.name.decode(),
        compute_capability=f"{properties.major}.{properties.minor}",
        total_memory=int(total),
        free_memory=int(free),
        driver=f"{driver // 1000}.{driver % 1000 // 10}",
    )


class CudaRuntime:
    """The functions of ``cuda.bindings.runtime`` over one GPU, with statuses turned into errors."""

    def __init__(self, index: int = 0) -> None:
        """Find the GPU and make it this thread's device.

        Raises:
            EngineError: the bindings are not installed, or there is no driver or no such GPU.
        """
        try:
            self.api: Any = importlib.import_module(_MODULE)
        except ImportError as fault:
            raise EngineError(
                f"TensorRT engines need a GPU and the package cuda-bindings ({fault}); {_INSTALL}"
            ) from None
        self._success = self.api.cudaError_t.cudaSuccess
        self._no_memory = self.api.cudaError_t.cudaErrorMemoryAllocation
        status, count = self.api.cudaGetDeviceCount()
        if status != self._success or not count:
            reason = _NO_GPU.get(int(status), self._said(status)) if status != self._success else _NO_GPU[100]
            raise EngineError(f"no GPU can be used: {reason}; run it on a machine with one")
        if not 0 <= index < count:
            raise EngineError(f"GPU {index} does not exist: the driver finds {count}, numbered from 0")
        self.call("cudaSetDevice", index)

    def call(self, name: str, *arguments: object) -> Any:
        """Call a function.

        Args:
            name: of the function.
            arguments: addresses, streams and events as integers.

        Returns:
            What follows the status: nothing, one value, or a tuple.

        Raises:
            EngineError: the call failed; the message names it and CUDA's reason.
        """
        status, *results = getattr(self.api, name)(*arguments)
        if status != self._success:
            raise EngineError(self._message(name, status, arguments))
        return results[0] if len(results) == 1 else tuple(results)

    def _message(self, name: str, status: Any, arguments: tuple[object, ...]) -> str:
        if status != self._no_memory or name not in ("cudaMalloc", "cudaHostAlloc"):
            return f"CUDA: {name} failed: {self._said(status)}"
        if name == "cudaHostAlloc":
            return f"there is no room for {arguments[0]} bytes of page-locked memory; free memory of this machine"
        free, total = self.api.cudaMemGetInfo()[1:]
        return (
            f"the GPU has no room for {arguments[0]} bytes ({free} of {total} bytes are free); end other programs "
            "on it, or rebuild with cpspec-build and a smaller --maxKVCacheCapacity or --maxBatchSize"
        )

    def _said(self, status: Any) -> str:
        return str(self.api.cudaGetErrorString(status)[1].decode())
