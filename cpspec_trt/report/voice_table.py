"""Speakers and languages: a table on a terminal, plain lines with tabs between the columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpspec_trt.text.voice_list import VoiceName


def print_voices(names: Sequence[VoiceName]) -> None:
    """Print to stdout: kind, name and note of each."""
    if sys.stdout is None or not sys.stdout.isatty():
        for found in names:
            print(found.kind, found.name, found.note, sep="\t")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("name", no_wrap=True)
    table.add_column("note")
    kind = ""
    for found in names:
        if kind and found.kind != kind:
            table.add_section()
        table.add_row(found.kind if found.kind != kind else "", Text(found.name), Text(found.note))
        kind = found.kind
    Console().print(table)
