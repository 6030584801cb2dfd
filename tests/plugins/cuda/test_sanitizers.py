"""The emulated kernels under the address and undefined-behaviour sanitizers: no byte outside an array is touched."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.kernels.selection import suite
from tests.plugins.building import ROOT, make
from tests.plugins.emulated import LIBRARY_VARIABLE

OUT_OF_BOUNDS = """
import numpy as np
from tests.plugins.emulated import Schedule, emulated_kernels
kernels = emulated_kernels(Schedule(0, 128))
arrays = [np.zeros(words, np.uint32) for words in (400, 202, 404)]  # counters of 100 entries, the rest of 101
counters, keys, out = (array.ctypes.data for array in arrays)
kernels.library.call("philox", counters, keys, 101, out)
"""


def _runtime(name: str) -> str:
    """The sanitizer's library, which must be there before Python's own allocations."""
    found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    library = make("emulated-sanitized") / "libcpspec_emulated_sanitized.so"
    environment = {
        **os.environ,
        LIBRARY_VARIABLE: str(library),
        "LD_PRELOAD": f"{_runtime('libasan.so')} {_runtime('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
    }
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)


def _assert_clean(implementation: str, *tests: str) -> None:
    _, *arguments = suite(implementation, *tests)
    done = _run(*arguments)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_the_suite_of_all_implementations_runs_clean_under_sanitizers() -> None:
    # Without what repeats one operation thousands of times.
    _assert_clean("emulated", "tests/kernels", "-k", "not random_rounds_are_decided and not worked_example")


@pytest.mark.long
def test_every_test_of_all_implementations_runs_clean_under_sanitizers() -> None:
    _assert_clean("emulated", "tests/kernels")


def test_the_comparison_with_the_cpu_library_runs_clean_under_sanitizers() -> None:
    _assert_clean("seed1-128threads", "tests/plugins/cuda")


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["seed0-256threads", "seed2-256threads", "seed3-128threads"])
def test_the_comparison_runs_clean_under_sanitizers_with_other_schedules(schedule: str) -> None:
    _assert_clean(schedule, "tests/plugins/cuda")


def test_a_read_beyond_an_array_is_stopped_by_the_sanitizer() -> None:
    done = _run("-c", OUT_OF_BOUNDS)
    assert done.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr
