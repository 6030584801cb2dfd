"""One line on stderr for each step of a long command, where somebody watches."""

from __future__ import annotations

import sys

import click


def show_step(line: str) -> None:
    """Print ``line`` if stderr is a terminal."""
    if sys.stderr.isatty():
        click.echo(f"{line} …", err=True)
