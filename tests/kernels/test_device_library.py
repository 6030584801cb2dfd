"""Where the CUDA library is looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cpspec_trt.errors import EngineError
from cpspec_trt.kernels import device_library
from cpspec_trt.kernels.device_library import NAME, VARIABLE, open_device_library


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An installation without the library: the package's folder and the checkout are empty."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(device_library, "_PACKAGE", tmp_path / "kernels")
    monkeypatch.setattr(device_library, "_CHECKOUT", tmp_path / "checkout")
    return tmp_path


def written(path: Path, age: int = 0) -> Path:
    """A file that is no library, made ``age`` seconds ago."""
    path.parent.mkdir(parents=True)
    path.write_text("no library")
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def test_a_missing_library_says_where_it_was_looked_for_and_how_to_build_it(nowhere: Path) -> None:
    with pytest.raises(
        EngineError, match=rf"{NAME}.*checkout/build/plugins; build them.*make plugin.*{VARIABLE}"
    ) as found:
        open_device_library()
    assert str(nowhere / "kernels" / "_native") in str(found.value)


def test_the_package_comes_before_a_checkout_and_the_variable_before_both(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = nowhere / "checkout" / "build" / "plugins"
    newest = written(built / "cuda-90" / NAME, age=1)
    written(built / "cuda-80" / NAME, age=2)
    with pytest.raises(EngineError, match=f"{newest}: the kernels' library does not load"):
        open_device_library()
    packaged = written(nowhere / "kernels" / "_native" / NAME)
    with pytest.raises(EngineError, match=f"{packaged}: the kernels' library does not load"):
        open_device_library()
    monkeypatch.setenv(VARIABLE, str(nowhere / "chosen.so"))
    with pytest.raises(EngineError, match=r"chosen\.so: the kernels' library is missing.*make plugin"):
        open_device_library()
