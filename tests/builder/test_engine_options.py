"""Options of TensorRT: what is decided, and what a backend cannot honour."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.builder import flavour
from cpspec_trt.builder.engine_options import (
    FLAGS,
    EmbeddedSettings,
    EngineOptions,
    EngineSettings,
    check_options,
    known_targets,
)
from cpspec_trt.builder.flavour import RTX
from cpspec_trt.devices.cuda import DeviceFacts
from cpspec_trt.errors import UsageError


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a GPU of some compute capability into the machine, beside a TensorRT that nothing here imports."""

    def put(capability: str) -> None:
        monkeypatch.setattr(flavour, "probe", lambda: DeviceFacts("a GPU", capability, 1 << 34, 1 << 33, "13.0"))
        monkeypatch.setattr(flavour.Flavour, "is_installed", lambda self: True)

    return put


def settle(backend: str, **options: Any) -> EngineSettings:
    found = check_options(EngineOptions(**options), backend)
    assert isinstance(found, EngineSettings)
    return found


def test_an_rtx_engine_is_portable_and_bf16_unless_asked_otherwise() -> None:
    found = settle("tensorrt-rtx")
    assert (found.precision, found.compute_capabilities, found.optimization_level) == ("bf16", ("portable",), 3)
    assert found.workspace_bytes is None
    assert found.sentence() == "tensorrt-rtx in bf16 for every GPU from compute capability 8.0, optimization level 3"


def test_targets_are_kept_once_and_in_order() -> None:
    found = settle("tensorrt-rtx", compute_capabilities=("12.0", "8.6", "12.0"))
    assert found.compute_capabilities == ("8.6", "12.0")


def test_the_targets_of_the_library_are_read_from_it() -> None:
    found = known_targets(RTX)
    assert {"7.5": "SM75", "8.9": "SM89", "12.0": "SM120"}.items() <= found.items()
    assert "CURRENT" not in found.values()


@pytest.mark.parametrize(("capability", "precision"), [("7.5", "fp16"), ("8.0", "bf16"), ("9.0", "bf16")])
def test_full_tensorrt_builds_for_the_gpu_that_is_here(gpu: Any, capability: str, precision: str) -> None:
    gpu(capability)
    found = settle("tensorrt", version_compatible=True, timing_cache=Path("times"), workspace_mib=3)
    assert (found.precision, found.compute_capabilities) == (precision, (capability,))
    assert (found.version_compatible, found.hardware_compatible) == (True, False)
    assert (found.timing_cache, found.workspace_bytes) == (Path("times"), 3 << 20)


REFUSED = [
    (
        "onnxruntime",
        {"precision": "bf16"},
        "--precision bf16: onnxruntime engines are fp32 or int8; build for TensorRT",
    ),
    ("onnxruntime", {"optimization_level": 0}, "--optimizationLevel: means nothing for onnxruntime engines"),
    ("onnxruntime", {"workspace_mib": 1}, "--workspaceMiB: means nothing for onnxruntime engines"),
    ("onnxruntime", {"compute_capabilities": ("8.9",)}, "--computeCapabilities: means nothing for onnxruntime"),
    ("onnxruntime", {"timing_cache": Path("t")}, "--timingCache: means nothing for onnxruntime engines"),
    ("onnxruntime", {"version_compatible": True}, "--versionCompatible: means nothing for onnxruntime engines"),
    ("onnxruntime", {"hardware_compatible": True}, "--hardwareCompatible: means nothing for onnxruntime engines"),
    ("onnxruntime", {"build_log": Path("l")}, "--buildLog: means nothing for onnxruntime engines"),
    ("tensorrt-rtx", {"timing_cache": Path("t")}, "--timingCache: tensorrt-rtx cannot do this"),
    ("tensorrt-rtx", {"version_compatible": True}, "--versionCompatible: tensorrt-rtx cannot do this"),
    ("tensorrt-rtx", {"hardware_compatible": True}, "--hardwareCompatible: tensorrt-rtx cannot do this"),
    ("tensorrt", {"compute_capabilities": ("8.9",)}, "--computeCapabilities: tensorrt cannot do this"),
    ("tensorrt-rtx", {"compute_capabilities": ("9.0",)}, "--computeCapabilities '9.0': tensorrt-rtx does not build"),
    ("tensorrt-rtx", {"compute_capabilities": ("",)}, "--computeCapabilities '': tensorrt-rtx does not build"),
    (
        "tensorrt-rtx",
        {"precision": "int8"},
        "--precision int8: tensorrt-rtx engines are fp32, fp16, bf16; int8 weights",
    ),
    ("tensorrt-rtx", {"precision": ""}, "--precision '': is unknown"),
    ("tensorrt-rtx", {"optimization_level": 6}, "--optimizationLevel is 6; it must lie in 0 … 5"),
    ("tensorrt-rtx", {"optimization_level": -1}, "--optimizationLevel is -1; it must lie in 0 … 5"),
    ("tensorrt-rtx", {"workspace_mib": 0}, "--workspaceMiB is 0; it must be at least 1"),
    ("tensorrt-rtx", {"compute_capabilities": ("8.9", "7.5")}, "--computeCapabilities '7.5': tensorrt-rtx has no fp3"),
]


@pytest.mark.parametrize(("backend", "options", "message"), REFUSED)
def test_what_a_backend_cannot_honour_is_refused_by_name(
    gpu: Any, backend: str, options: dict[str, Any], message: str
) -> None:
    gpu("8.9")
    with pytest.raises(UsageError) as caught:
        check_options(EngineOptions(**options), backend)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("asked", "found"), [(None, "fp32"), ("fp32", "fp32"), ("int8", "int8")])
def test_onnx_runtime_is_asked_for_fp32_or_for_int8_weights(asked: str | None, found: str) -> None:
    settings = check_options(EngineOptions(precision=asked), "onnxruntime")
    assert isinstance(settings, EmbeddedSettings)
    assert settings.precision == found
    assert ("int8" in settings.sentence()) is (found == "int8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hardware_compatible": True}, "--hardwareCompatible: needs a GPU of compute capability 8.0 or later"),
        ({"precision": "bf16"}, "--precision bf16: GPUs of compute capability 7.5 do not have it"),
    ],
)
def test_an_old_gpu_is_not_asked_for_what_it_lacks(gpu: Any, options: dict[str, Any], message: str) -> None:
    gpu("7.5")
    with pytest.raises(UsageError, match=message):
        check_options(EngineOptions(**options), "tensorrt")


def test_an_option_of_a_preset_is_blamed_on_its_key() -> None:
    options = EngineOptions(
        timing_cache=Path("t"), origins=(("timing_cache", "--config a.yaml: tensorrt.timing_cache"),)
    )
    with pytest.raises(UsageError, match=r"^--config a\.yaml: tensorrt\.timing_cache: tensorrt-rtx cannot do this"):
        check_options(options, "tensorrt-rtx")


def test_every_option_has_a_flag() -> None:
    assert {found.name for found in fields(EngineOptions)} - {"origins"} == FLAGS.keys()
