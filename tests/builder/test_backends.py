"""Which backend builds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cpspec_trt.builder import backends
from cpspec_trt.builder.backends import choose_backend
from cpspec_trt.errors import UnsupportedError, UsageError


def test_auto_takes_onnx_runtime_in_silence_where_tensorrt_could_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "tensorrt_could_run", lambda: False)
    assert choose_backend("auto") == ("onnxruntime", None)
    assert choose_backend("onnxruntime") == ("onnxruntime", None)


def test_auto_says_so_where_tensorrt_could_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "tensorrt_could_run", lambda: True)
    name, note = choose_backend("auto")
    assert name == "onnxruntime"
    assert note == "this machine has TensorRT and a GPU, but this release builds no TensorRT engines; using onnxruntime"


@pytest.mark.parametrize("name", ["tensorrt", "tensorrt-rtx"])
def test_tensorrt_by_name_is_refused_clearly(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"--backend {name}: is not built yet in this release"):
        choose_backend(name)


def test_an_unknown_backend_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'trt': is unknown; use one of auto, onnxruntime, tensorrt, tensorrt-rtx"):
        choose_backend("trt")


def test_tensorrt_needs_both_its_module_and_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = tmp_path / "version"
    monkeypatch.setattr(backends, "_GPU_DRIVER", driver)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tensorrt.py").write_text("raise AssertionError('must not be imported')")
    assert not backends.tensorrt_could_run()
    driver.write_text("NVRM version")
    assert backends.tensorrt_could_run()
    assert "tensorrt" not in sys.modules
