"""Which backend builds, and on which machines."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from cpspec_trt.builder import flavour
from cpspec_trt.builder.backends import Chosen, choose_backend, tensorrt_could_run
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
def test_auto_without_a_gpu_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, NO_GPU)
    assert choose_backend("auto") == Chosen("onnxruntime")
    assert "tensorrt" not in sys.modules


def test_auto_takes_tensorrt_where_a_gpu_is(own_module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_module.write_text("__version__ = '10.15.1.29'")
    machine(monkeypatch, GPU)
    assert choose_backend("auto") == Chosen("tensorrt")


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("__version__ = '10.13.3.9'", "TensorRT 10.13.3.9 is installed, and this package needs 10.15 or newer"),
        ("raise ImportError('libnvinfer.so.11')", "tensorrt cannot be imported: libnvinfer.so.11"),
    ],
)
def test_auto_notes_a_tensorrt_that_cannot_build_and_takes_onnx_runtime(
    own_module: Path, monkeypatch: pytest.MonkeyPatch, module: str, reason: str
) -> None:
    machine(monkeypatch, GPU)
    own_module.write_text(module)
    chosen = choose_backend("auto")
    assert chosen.backend == "onnxruntime"
    (note,) = chosen.notes
    assert note.startswith("engines are built with onnxruntime, since ")
    assert reason in note


def test_auto_takes_onnx_runtime_where_tensorrt_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, GPU)
    without_modules(monkeypatch)
    assert not tensorrt_could_run()
    assert choose_backend("auto") == Chosen("onnxruntime")


@pytest.mark.usefixtures("trap")
def test_full_tensorrt_is_refused_without_a_gpu_before_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, NO_GPU)
    with pytest.raises(
        EngineError, match=f"--backend tensorrt: .*{NO_GPU}; or use --backend tensorrt-rtx or onnxruntime"
    ):
        choose_backend("tensorrt")
    with pytest.raises(EngineError, match=f"--config a.yaml: backend tensorrt: .*{NO_GPU}"):
        choose_backend("tensorrt", "--config a.yaml: backend")
    with pytest.raises(EngineError, match=NO_GPU):
        FULL.load()


def test_tensorrt_rtx_needs_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tensorrt_rtx")
    module.__dict__["__version__"] = "1.7.1.116"
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", module)
    machine(monkeypatch, NO_GPU)
    assert choose_backend("tensorrt-rtx") == Chosen("tensorrt-rtx")


@pytest.mark.parametrize("found", [FULL, RTX])
def test_a_module_that_is_missing_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, found: flavour.Flavour
) -> None:
    machine(monkeypatch, GPU)
    without_modules(monkeypatch)
    install = (
        rf"{found.module} is not installed; pip install 'cpspec-trt\[{found.backend}\]', or use --backend onnxruntime"
    )
    with pytest.raises(EngineError, match=install):
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
    refused = rf"TensorRT {version} is installed, and this package needs 10\.15 or newer.*or use --backend onnxruntime"
    with pytest.raises(EngineError, match=refused):
        FULL.load()
    with pytest.raises(EngineError, match=rf"--config a\.yaml: backend tensorrt: {refused}"):
        choose_backend("tensorrt", "--config a.yaml: backend")


def test_a_module_that_does_not_load_says_why(own_module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, GPU)
    own_module.write_text("raise ImportError('libnvinfer.so.11: cannot open shared object file')")
    with pytest.raises(EngineError, match=r"tensorrt cannot be imported: libnvinfer\.so\.11: cannot open"):
        FULL.load()


def test_an_unknown_backend_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'trt': is unknown; use one of auto, onnxruntime, tensorrt, tensorrt-rtx"):
        choose_backend("trt")
