"""What opening the simulation changes in this process, and that all of it is put back."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys

from tests.simulation.kernels import SimulatedHandle, library_path
from tests.simulation.simulation import LIBRARY_VARIABLE, simulated

NAMES = ("cuda", "cuda.bindings", "cuda.bindings.runtime", "tensorrt", "tensorrt_rtx")


def test_imports_give_the_stand_ins_inside_and_what_was_there_before_outside() -> None:
    before = {name: sys.modules.get(name) for name in NAMES}
    with simulated() as simulation:
        assert importlib.import_module("cuda.bindings.runtime") is simulation.runtime
        assert importlib.import_module("tensorrt") is simulation.tensorrt
        assert importlib.import_module("tensorrt_rtx") is simulation.tensorrt_rtx
        from cuda.bindings import runtime  # type: ignore[import-untyped]

        assert runtime is simulation.runtime
    assert {name: sys.modules.get(name) for name in NAMES} == before


def test_modules_that_are_imported_inside_stay_imported() -> None:
    sys.modules.pop("colorsys", None)
    with simulated():
        module = importlib.import_module("colorsys")
    assert sys.modules["colorsys"] is module


def test_the_library_of_kernels_is_replaced_inside_only() -> None:
    path, before = str(library_path()), os.environ.get(LIBRARY_VARIABLE)
    with simulated():
        assert os.environ[LIBRARY_VARIABLE] == path
        assert isinstance(ctypes.CDLL(path), SimulatedHandle)
        assert ctypes.CDLL(path).cpspec_abi_version() > 0
    assert os.environ.get(LIBRARY_VARIABLE) == before
    assert isinstance(ctypes.CDLL(path), ctypes.CDLL)


def test_simulations_follow_one_another_with_nothing_carried_over() -> None:
    for _ in range(2):
        with simulated() as simulation:
            status, address = simulation.runtime.cudaMalloc(64)
            assert status == simulation.runtime.cudaError_t.cudaSuccess
            assert simulation.live_allocations == 1
            simulation.runtime.cudaFree(address)


def test_the_device_has_the_name_memory_and_capability_it_was_given() -> None:
    with simulated(memory=1 << 20, capability=(8, 6), name="simulated GPU of a test") as simulation:
        status, found = simulation.runtime.cudaGetDeviceProperties(0)
        assert status == simulation.runtime.cudaError_t.cudaSuccess
        assert (found.name, found.major, found.minor) == (b"simulated GPU of a test", 8, 6)
        assert found.totalGlobalMem == 1 << 20
