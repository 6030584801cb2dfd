"""Loading the library: what is wrong with a file is said with the command that repairs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cpspec_trt.errors import EngineError
from cpspec_trt.kernels import loading
from cpspec_trt.kernels.native_library import ABI_VERSION, NativeLibrary
from tests.conftest import ROOT


def test_the_default_kernels_are_the_cpu_librarys() -> None:
    assert loading.default_kernels().library.implementation.startswith("cpu ")


def test_a_missing_library_is_named_with_the_command_that_builds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(loading, "CPU_LIBRARY", tmp_path / "libcpspec_cpu.so")
    with pytest.raises(EngineError, match=r"libcpspec_cpu.so: .* is missing; build it with: pip install \."):
        loading.default_kernels()


def test_a_file_that_is_no_library_is_named(tmp_path: Path) -> None:
    path = tmp_path / "libcpspec_cpu.so"
    path.write_text("not a library")
    with pytest.raises(EngineError, match=r"libcpspec_cpu.so: .* does not load .*; build it with: make it so"):
        NativeLibrary(path, "make it so")


def test_a_library_of_another_version_is_named_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "libcpspec_cpu.so"
    source = 'extern "C" int cpspec_abi_version() { return 99; }'
    subprocess.run(["c++", "-x", "c++", "-", "-shared", "-fPIC", "-o", path], input=source, text=True, check=True)
    with pytest.raises(EngineError, match=rf"has ABI version 99, this release needs {ABI_VERSION}; .*: make it so"):
        NativeLibrary(path, "make it so")


def test_the_version_is_the_headers() -> None:
    header = (ROOT / "plugins" / "include" / "cpspec" / "kernels.h").read_text(encoding="utf-8")
    assert f"#define CPSPEC_ABI_VERSION {ABI_VERSION}\n" in header
