"""Libraries that tests load, built by plugins/Makefile when a source is newer than they are."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "plugins"
ALL_ARCHITECTURES = "80 86 87 89 90 100 110 120"


@cache
def make(target: str, **variables: str) -> Path:
    """Build a target of plugins/Makefile, one process at a time, and return the folder of the libraries.

    What nvcc compiles shares nothing with the rest, so neither waits for the other.

    Args:
        target: its name.
        variables: of make.

    Raises:
        RuntimeError: the compiler refused; its output is the message.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / (".lock-cuda" if target.startswith("cuda") else ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        settings = [
            f"{name}={value}" for name, value in {"BUILD": str(BUILD), "PYTHON": sys.executable, **variables}.items()
        ]
        command = ["make", "-C", str(ROOT / "plugins"), "--jobs=2", *settings, target]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"make -C plugins {target} failed:\n{done.stdout}{done.stderr}")
    return BUILD
