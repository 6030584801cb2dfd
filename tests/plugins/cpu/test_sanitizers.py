"""The CPU library under the address and undefined-behaviour sanitizers: no byte outside an array is touched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kernels.selection import CPU_ALONE, without_tests
from tests.plugins.cpu.building import SANITIZED, SUITE, build, run, run_suite

# Every file that calls a library.
COLLECTED = {path.relative_to(ROOT).as_posix() for path in SUITE.glob("test_*.py")}
FILES = sorted({*without_tests(COLLECTED, []), *CPU_ALONE})
OUT_OF_BOUNDS = """
import numpy as np
from tests.kernels.implementations import CPU_LEVELS, cpu_kernels
arrays = [np.zeros(words, np.uint32) for words in (400, 202, 404)]  # counters of 100 entries, the rest of 101
counters, keys, out = (array.ctypes.data for array in arrays)
cpu_kernels(CPU_LEVELS[0]).library.call("philox", counters, keys, 101, out)
"""


def _runtime(name: str) -> str:
    """A sanitizer's library, which must be there before Python's own allocations."""
    found = subprocess.run(["c++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "plugins", tmp_path_factory.mktemp("sanitized"), SANITIZED)


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return {
        "LD_PRELOAD": f"{_runtime('libasan.so')} {_runtime('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
    }


def test_the_suite_runs_clean_under_sanitizers(library: Path, environment: dict[str, str]) -> None:
    # A million draws touch no other bytes than a hundred.
    done = run_suite(library, *FILES, "-k", "not frequencies", **environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_a_read_beyond_an_array_is_stopped_by_the_sanitizer(library: Path, environment: dict[str, str]) -> None:
    done = run(library, "-c", OUT_OF_BOUNDS, **environment)
    assert done.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr
