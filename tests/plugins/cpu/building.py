"""Other builds of the CPU library than the installed one: under sanitizers, or with a fault put in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.kernels.implementations import LIBRARY_VARIABLE

SANITIZED = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
SUITE = ROOT / "tests" / "kernels"


def build(sources: Path, folder: Path, flags: str) -> Path:
    """Compile ``sources`` (a plugins directory) into ``folder`` and return the library.

    Raises:
        RuntimeError: the build failed; its output is the message.
    """
    configure = ["-S", str(sources), "-B", str(folder), "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={flags}"]
    for arguments in (configure, ["--build", str(folder), "--parallel", "2"]):
        done = subprocess.run([_cmake(), *arguments], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"cmake failed:\n{done.stdout}{done.stderr}")
    return folder / "libcpspec_cpu.so"


def run(library: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with another CPU library in the place of the installed one."""
    variables = {**os.environ, LIBRARY_VARIABLE: str(library), **environment}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=variables, capture_output=True, text=True)


def run_suite(library: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run tests of the suite over the other library."""
    return run(library, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments, **environment)


def _cmake() -> str:
    """The interpreter's own cmake, which the development extra installs, or the system's."""
    own = Path(sys.executable).with_name("cmake")
    return str(own) if own.is_file() else "cmake"
