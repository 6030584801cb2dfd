"""The page about compatibility is the rendered table."""

from __future__ import annotations

import subprocess
import sys

from cpspec_trt.files.compatibility import ROWS
from cpspec_trt.files.compatibility_page import render
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "compatibility.md"


def test_the_committed_page_is_the_rendered_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == render()


def test_the_module_prints_the_page() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "cpspec_trt.files.compatibility_page"],
        capture_output=True,
        encoding="utf-8",
        check=True,
        cwd=ROOT,
    )
    assert printed.stdout == render()


def test_every_row_of_the_table_stands_on_the_page() -> None:
    text = render()
    assert not [row for row in ROWS if f"| {row.where} | `{row.name}" not in text]
