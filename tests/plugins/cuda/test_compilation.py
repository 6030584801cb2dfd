"""nvcc takes the kernels, and they need no more of a device than they may."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpspec_trt.kernels.native_library import ABI_VERSION, OPERATIONS
from tests.conftest import ROOT
from tests.plugins.building import ALL_ARCHITECTURES, make
from tests.plugins.symbols import ALLOCATING, undefined_symbols

# Of the CUDA runtime, beside launches: nothing here allocates, copies or waits.
CALLED = {"cudaGetLastError", "cudaGetErrorString", "cudaMemsetAsync"}
ARCHITECTURES = [int(each) for each in ALL_ARCHITECTURES.split()]
SOUND = """ptxas info    : Compiling entry function '_ZN6cpspec9draw_rowsEPKfi17cpspec_noise_rowsPl' for 'sm_80'
ptxas info    : Function properties for _ZN6cpspec9draw_rowsEPKfi17cpspec_noise_rowsPl
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 44 registers, used 1 barriers, 64 bytes smem, 400 bytes cmem[0]
"""


def _inspect(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/kernel_resources.py", str(folder), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def compiled() -> Path:
    return make("cuda", ARCHITECTURES=ALL_ARCHITECTURES) / ("cuda-" + ALL_ARCHITECTURES.replace(" ", "-"))


def test_no_kernel_spills_or_exceeds_a_limit_and_the_document_says_what_each_needs(compiled: Path) -> None:
    done = _inspect(compiled, "--check", "docs/measurements/kernels.md")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n| `") >= 20
    (head,) = [line for line in done.stdout.splitlines() if line.startswith("| kernel |")]
    assert [int(cell) for cell in re.findall(r"sm_(\d+)", head)] == ARCHITECTURES


def _objects(compiled: Path) -> list[Path]:
    """Those of the library, without the tools of gpu_check beside them."""
    return [path for path in compiled.glob("*.o") if path.name != "device_tools.o"]


def test_an_operation_allocates_nothing_and_never_waits(compiled: Path) -> None:
    symbols = {name for path in _objects(compiled) for name in undefined_symbols(path)}
    assert "__cudaLaunchKernel" in symbols
    assert {name for name in symbols if name.startswith("cuda")} <= CALLED
    assert [name for name in symbols if ALLOCATING.match(name)] == []


def test_the_library_holds_code_for_every_architecture_and_ptx_for_those_to_come(compiled: Path) -> None:
    library = compiled / "libcpspec_cuda.so"
    names = {code.decode() for code in re.findall(rb"compute_\d+|sm_\d+", library.read_bytes())}
    assert names >= {"compute_120", *(f"sm_{each}" for each in ARCHITECTURES)}


def test_the_cuda_library_exports_the_whole_interface(compiled: Path) -> None:
    library = ctypes.CDLL(str(compiled / "libcpspec_cuda.so"))
    for operation in OPERATIONS:
        assert getattr(library, f"cpspec_{operation}")
    library.cpspec_implementation.restype = ctypes.c_char_p
    assert library.cpspec_implementation() == b"cuda"
    assert library.cpspec_abi_version() == ABI_VERSION


@pytest.mark.parametrize(
    ("sound", "faulty", "message"),
    [
        ("0 bytes spill stores", "8 bytes spill stores", "draw_rows on sm_80 uses 8 bytes of local memory"),
        ("0 bytes stack frame", "16 bytes stack frame", "draw_rows on sm_80 uses 16 bytes of local memory"),
        ("Used 44 registers", "Used 129 registers", "draw_rows on sm_80 uses 129 registers, at most 128 are allowed"),
        ("64 bytes smem", "40000 bytes smem", "draw_rows on sm_80 declares 40000 bytes of shared memory"),
    ],
)
def test_a_report_beyond_a_limit_is_refused_by_name(tmp_path: Path, sound: str, faulty: str, message: str) -> None:
    (tmp_path / "logits.ptxas").write_text(SOUND)
    assert _inspect(tmp_path).returncode == 0
    (tmp_path / "logits.ptxas").write_text(SOUND.replace(sound, faulty))
    done = _inspect(tmp_path)
    assert done.returncode == 1
    assert f"error: {message}" in done.stderr


def test_a_document_that_says_something_else_is_found_out(tmp_path: Path) -> None:
    (tmp_path / "logits.ptxas").write_text(SOUND)
    document = tmp_path / "kernels.md"
    document.write_text(
        "<!-- resources: written by scripts/kernel_resources.py -->\n<!-- end of resources -->\nAfter.\n"
    )
    assert _inspect(tmp_path, "--write", str(document)).returncode == 0
    assert "| `draw_rows` | 64 | 44 |" in document.read_text()
    assert document.read_text().endswith("After.\n")
    assert _inspect(tmp_path, "--check", str(document)).returncode == 0
    document.write_text(document.read_text().replace("| 44 |", "| 20 |").replace("draw_rows` | 64", "draw_rows` | 32"))
    done = _inspect(tmp_path, "--check", str(document))
    assert done.returncode == 1
    assert "draw_rows uses 44 registers on sm_80, not 20" in done.stderr
    assert "draw_rows declares 64 bytes of shared memory, not 32" in done.stderr


def test_a_folder_without_reports_says_what_to_run(tmp_path: Path) -> None:
    done = _inspect(tmp_path)
    assert done.returncode == 1
    assert "run make -C plugins cuda" in done.stderr


@pytest.mark.long
def test_nvidias_python_packages_compile_where_the_system_has_no_compiler(tmp_path: Path) -> None:
    build = tmp_path / "build"
    command = [
        "make", "-C", str(ROOT / "plugins"), "cuda", f"BUILD={build}", "NVCC=", "ARCHITECTURES=90",
        f"PYTHON={sys.executable}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (build / "cuda-90" / "libcpspec_cuda.so").exists()
    shutil.rmtree(build)
