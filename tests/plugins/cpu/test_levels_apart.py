"""The same source compiled for several machines must not be merged by the linker."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conftest import ROOT


def test_a_level_exports_its_table_and_nothing_else(tmp_path: Path) -> None:
    compiled = tmp_path / "level.o"
    plugins = ROOT / "plugins"
    # Unoptimised, so that no function disappears into its caller.
    command = ["c++", "-std=c++17", "-O0", "-DCPSPEC_LEVEL=some", f"-I{plugins / 'include'}", "-c"]
    subprocess.run([*command, plugins / "cpu" / "level.cpp", "-o", compiled], check=True)
    listed = subprocess.run(["nm", "--defined-only", "-gC", compiled], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["cpspec::level_some"]
