"""Without a GPU, what needs one says so in one line."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from cpspec_trt.devices import cuda
from cpspec_trt.devices.cuda import CudaRuntime, probe
from cpspec_trt.errors import EngineError


def bindings(status: int, count: int | None) -> SimpleNamespace:
    """As much of ``cuda.bindings.runtime`` as a machine without a usable GPU answers."""
    return SimpleNamespace(
        cudaError_t=SimpleNamespace(cudaSuccess=0, cudaErrorMemoryAllocation=2),
        cudaGetDeviceCount=lambda: (status, count),
        cudaGetErrorString=lambda status: (0, b"something else"),
    )


@pytest.mark.parametrize(
    ("status", "count", "reason"),
    [
        (35, None, "the NVIDIA driver is missing or older than the CUDA runtime"),
        (100, None, "the driver finds no CUDA device"),
        (0, 0, "the driver finds no CUDA device"),
        (999, None, "something else"),
    ],
)
def test_a_machine_without_a_gpu_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, status: int, count: int | None, reason: str
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", bindings(status, count))
    expected = f"no GPU can be used: {reason}; run it on a machine with one"
    with pytest.raises(EngineError, match=expected):
        CudaRuntime()
    assert isinstance(probe(), str)


def test_a_gpu_that_does_not_exist_is_refused_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", bindings(0, 1))
    with pytest.raises(EngineError, match="GPU 1 does not exist: the driver finds 1"):
        CudaRuntime(1)


def test_missing_bindings_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_MODULE", "no_such_module_of_cuda")
    with pytest.raises(EngineError, match=r"cuda-bindings.*install it with: pip install cuda-bindings"):
        CudaRuntime()


def test_importing_the_room_loads_neither_cuda_nor_tensorrt() -> None:
    program = (
        "import sys, cpspec_trt.devices.device, cpspec_trt.kernels.device\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('cuda', 'tensorrt', 'tensorrt_rtx')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
