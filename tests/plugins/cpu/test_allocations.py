"""An operation of the CPU library allocates nothing: the library calls nothing that could."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cpspec_trt.kernels.loading import CPU_LIBRARY
from tests.plugins.symbols import ALLOCATING, undefined_symbols


def test_the_cpu_library_calls_nothing_that_allocates() -> None:
    symbols = undefined_symbols(CPU_LIBRARY, "-D")
    assert "memcpy" in symbols
    assert [name for name in symbols if ALLOCATING.match(name)] == []


def test_what_allocates_would_be_seen(tmp_path: Path) -> None:
    source = '#include <vector>\nextern "C" int* f(int n) { static std::vector<int> v; v.resize(n); return v.data(); }'
    library = tmp_path / "allocating.so"
    command = ["c++", "-x", "c++", "-", "-shared", "-fPIC", "-O2", "-o", str(library)]
    subprocess.run(command, input=source, text=True, check=True)
    assert [name for name in undefined_symbols(library, "-D") if ALLOCATING.match(name)]
