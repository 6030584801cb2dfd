"""Which backend builds, and on which machines."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpspec_trt.builder import flavour
from cpspec_trt.builder.backends import choose_backend, tensorrt_could_run
from cpspec_trt.builder.flavour import FULL, RTX
from cpspec_trt.devices.cuda import DeviceFacts
from cpspec_trt.errors import EngineError, UsageError

NO_GPU = "no GPU can be used: the driver finds no CUDA device"
GPU = DeviceFacts("a GPU", "8.9", 1 << 34, 1 << 33, "13.0")


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both modules can be found; importing one fails the test."""
    for name in ("tensorrt", "tensorrt_rtx"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError('must not be imported')")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where to write a module ``tensorrt`` of one's own; forgotten afterwards."""
    monkeypatch.delitem(sys.modules, "tensorrt", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "tensorrt.py"
    sys.modules.pop("tensorrt", None)


def machine(monkeypatch: pytest.MonkeyPatch, found: DeviceFacts | str) -> None:
    monkeypatch.setattr(flavour, "probe", lambda: found)


def without_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tensorrt_rtx", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("trap")
def test_auto_takes_tensorrt_only_where_a_gpu_is_and_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, NO_GPU)
    assert choose_backend("auto") == "onnxruntime"
    machine(monkeypatch, GPU)
    assert choose_backend("auto") == "tensorrt"
    assert "tensorrt" not in sys.modules


def test_auto_takes_onnx_runtime_where_tensorrt_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, GPU)
    without_modules(monkeypatch)
    assert not tensorrt_could_run()
    assert choose_backend("auto") == "onnxruntime"


@pytest.mark.usefixtures("trap")
def test_full_tensorrt_is_refused_without_a_gpu_before_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, NO_GPU)
    with pytest.raises(EngineError, match=f"--backend tensorrt: .*{NO_GPU}; or use --backend tensorrt-rtx"):
        choose_backend("tensorrt")
    with pytest.raises(EngineError, match=f"--config a.yaml: backend tensorrt: .*{NO_GPU}"):
        choose_backend("tensorrt", "--config a.yaml: backend")
    with pytest.raises(EngineError, match=NO_GPU):
        FULL.load()


@pytest.mark.usefixtures("trap")
def test_tensorrt_rtx_needs_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, NO_GPU)
    assert choose_backend("tensorrt-rtx") == "tensorrt-rtx"
    assert "tensorrt_rtx" not in sys.modules


@pytest.mark.parametrize("found", [FULL, RTX])
def test_a_module_that_is_missing_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, found: flavour.Flavour
) -> None:
    machine(monkeypatch, GPU)
    without_modules(monkeypatch)
    with pytest.raises(
        EngineError, match=rf"{found.module} is not installed; pip install 'cpspec-trt\[{found.backend}"
    ):
        choose_backend(found.backend)


@pytest.mark.parametrize(("version", "usable"), [("10.13.3.9", False), ("10.15.0.1", True), ("11.4.0", True)])
def test_a_tensorrt_that_is_too_old_is_refused(
    own_module: Path, monkeypatch: pytest.MonkeyPatch, version: str, usable: bool
) -> None:
    machine(monkeypatch, GPU)
    own_module.write_text(f"__version__ = {version!r}")
    if usable:
        assert FULL.load().__version__ == version
        return
    with pytest.raises(EngineError, match=rf"TensorRT {version} is installed, and this package needs 10\.15 or newer"):
        FULL.load()


def test_a_module_that_does_not_load_says_why(own_module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, GPU)
    own_module.write_text("raise ImportError('libnvinfer.so.11: cannot open shared object file')")
    with pytest.raises(EngineError, match=r"tensorrt cannot be imported: libnvinfer\.so\.11: cannot open"):
        FULL.load()


def test_an_unknown_backend_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'trt': is unknown; use one of auto, onnxruntime, tensorrt, tensorrt-rtx"):
        choose_backend("trt")
