"""The TensorRT layers, simulated: compiled against a stand-in for TensorRT's headers, over the emulated kernels.

This shows that a layer carries its tensors to the operation it stands for. It shows nothing about TensorRT itself.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from tests.plugins.building import ALL_ARCHITECTURES, ROOT, make
from tests.plugins.emulated import Schedule, emulated_kernels

# nvinfer1::DataType
TYPES = {"float32": 0, "float16": 1, "int32": 3, "bfloat16": 7, "int64": 8}
SIGNED = {"uint32": np.int32, "uint64": np.int64}


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("type", ctypes.c_int32),
    )


@pytest.fixture(scope="module")
def simulation() -> ctypes.CDLL:
    library = ctypes.CDLL(str(make("tensorrt-simulated") / "libtensorrt_simulated.so"))
    library.cpspec_emulation_configure.argtypes = [ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint32]
    library.cpspec_emulation_configure(3, 1, 128)
    return library


def _simulate(simulation: ctypes.CDLL, layer: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> int:
    arrays = [each.view(SIGNED.get(each.dtype.name, each.dtype)) for each in (*inputs, *outputs)]
    shapes = [(ctypes.c_int64 * max(each.ndim, 1))(*each.shape) for each in arrays]
    tensors = (Tensor * len(arrays))(
        *(
            Tensor(each.ctypes.data, shape, each.ndim, TYPES[each.dtype.name])
            for each, shape in zip(arrays, shapes, strict=True)
        )
    )
    return int(simulation.simulate_layer(layer.encode(), tensors, len(inputs), len(outputs)))


class Slots:
    """Five slots over three heads, as the layers and as the operations take them."""

    def __init__(self, dtype: str) -> None:
        random = np.random.default_rng(1)
        kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
        rows = 5
        hidden = random.normal(size=(4, 48)).astype(kind)
        heads = random.normal(0, 0.3, (3, 97, 48)).astype(kind)
        self.filters = FilterRows.pack([FilterParameters(0.9, 20, 0.8)] * rows)
        self.source = hidden, np.array([0, 1, 2, 3, 0]), np.array([0, 1, 1, 2, 2]), heads
        self.noise = (
            random.integers(0, 2**64, rows, dtype=np.uint64),
            stream(Purpose.DRAFT, np.arange(2, 7), np.ones(rows, np.int64)),
            np.arange(rows, dtype=np.uint32),
        )

    @property
    def inputs(self) -> list[np.ndarray]:
        hidden, hidden_rows, head_rows, heads = self.source
        return [
            hidden, heads, hidden_rows, head_rows, self.filters.temperature, self.filters.top_k, self.filters.top_p
        ]  # fmt: skip

    @staticmethod
    def outputs() -> list[np.ndarray]:
        law = [np.full((5, 97), np.nan, np.float32) for _ in range(2)]
        return [*law, np.full(5, -7, np.int64), np.full(5, -7, np.int32)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_draft_layer_is_the_draft_operation(simulation: ctypes.CDLL, dtype: str) -> None:
    slots = Slots(dtype)
    want, got = slots.outputs(), slots.outputs()
    emulated_kernels(Schedule(0, 256)).draft(*slots.source, slots.filters, *slots.noise, *want)
    assert _simulate(simulation, "CpspecDraft", [*slots.inputs, *slots.noise], got) == 0
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_score_layer_is_the_score_operation(simulation: ctypes.CDLL, dtype: str) -> None:
    slots = Slots(dtype)
    want, got = ([*slots.outputs()[:2], slots.outputs()[3]] for _ in range(2))
    emulated_kernels(Schedule(0, 256)).score(*slots.source, slots.filters, *want)
    assert _simulate(simulation, "CpspecScore", slots.inputs, got) == 0
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _acceptance() -> list[np.ndarray]:
    random = np.random.default_rng(2)
    counts = np.array([2, 0, 3, 1])
    slots = int(counts.sum())
    return [
        random.dirichlet(np.ones(9), slots + len(counts)).astype(np.float32),
        random.dirichlet(np.ones(9), slots).astype(np.float32),
        random.integers(0, 9, slots),
        counts,
        np.array([1, 5, 3, 2]),
        random.integers(0, 2**64, 4, dtype=np.uint64),
        np.arange(4, dtype=np.uint32),
    ]


def test_the_accept_layer_is_the_accept_operation(simulation: ctypes.CDLL) -> None:
    inputs = _acceptance()
    want, got = ([np.full(4, -7, np.int64) for _ in range(2)] for _ in range(2))
    emulated_kernels(Schedule(0, 256)).accept_rejection(*inputs, *want)
    assert _simulate(simulation, "CpspecAccept", inputs, got) == 0
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_layer_refuses_types_ranks_and_sizes_that_are_not_its_own(simulation: ctypes.CDLL) -> None:
    inputs = _acceptance()
    outputs = [np.full(4, -7, np.int64), np.full(4, -7, np.int64)]
    assert _simulate(simulation, "CpspecNothing", inputs, outputs) == 1
    assert _simulate(simulation, "CpspecAccept", inputs, outputs[:1]) == 2
    assert _simulate(simulation, "CpspecAccept", [inputs[0].astype(np.float16), *inputs[1:]], outputs) == 3
    assert _simulate(simulation, "CpspecAccept", inputs[:-1], outputs) == 3
    assert _simulate(simulation, "CpspecAccept", [inputs[0][None], *inputs[1:]], outputs) == 5
    assert _simulate(simulation, "CpspecAccept", inputs, [outputs[0], np.full(5, -7, np.int64)]) == 7


def test_without_tensorrts_headers_the_build_says_what_is_missing() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TENSORRT_ROOT"}
    command = ["make", "--no-print-directory", "-C", str(ROOT / "plugins"), "tensorrt"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.strip() == (
        "the TensorRT adapter is not built: set TENSORRT_ROOT to a folder that has include/NvInferRuntime.h"
    )


def test_with_the_headers_the_build_makes_a_library_that_registers_the_layers(tmp_path: Path) -> None:
    vendor, build = tmp_path / "TensorRT", tmp_path / "build"
    shutil.copytree(ROOT / "plugins" / "tensorrt" / "tests" / "stand_in", vendor / "include")
    (vendor / "lib").mkdir()
    nvinfer = vendor / "lib" / "libnvinfer.so"
    subprocess.run(["g++", "-shared", "-x", "c++", "/dev/null", "-o", str(nvinfer)], check=True)
    objects = "cuda-" + ALL_ARCHITECTURES.replace(" ", "-")
    shutil.copytree(make("cuda", ARCHITECTURES=ALL_ARCHITECTURES) / objects, build / objects)
    settings = [f"BUILD={build}", f"TENSORRT_ROOT={vendor}", f"ARCHITECTURES={ALL_ARCHITECTURES}"]
    command = ["make", "-C", str(ROOT / "plugins"), *settings, f"PYTHON={sys.executable}", "tensorrt"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    ctypes.CDLL(str(nvinfer), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(build / objects / "libcpspec_tensorrt.so"))  # registers its layers as it is loaded
    library.cpspec_implementation.restype = ctypes.c_char_p
    assert library.cpspec_implementation() == b"cuda"
