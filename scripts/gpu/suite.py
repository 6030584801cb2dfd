"""The kernels' tests with the device among the implementations."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.kernels.selection import suite
from tests.plugins.device import DEVICE_VARIABLE

ROOT = Path(__file__).parents[2]


def run_suite(library: str | Path, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run every test that takes the device; it fails where a file of tests has none.

    Args:
        library: libcpspec_cuda_checked.so of this machine.
        options: of ``subprocess.run``.
    """
    environment = {**os.environ, DEVICE_VARIABLE: str(library)}
    command = suite("device", "tests/kernels", "tests/plugins/cuda")
    return subprocess.run(command, cwd=ROOT, env=environment, **options)
