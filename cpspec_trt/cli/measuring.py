"""What ``cpspec-build --measureCosts`` does."""

from __future__ import annotations

from pathlib import Path

import click

from cpspec_trt.api.costs import measure_pass_costs
from cpspec_trt.errors import UsageError


def measure_engine(engine_dir: Path | None, alone: bool) -> None:
    """Time a CodePredictor's passes, keep the times beside it, and print them.

    Args:
        engine_dir: the CodePredictor's engine, or the root of all engines.
        alone: whether no other flag was given.

    Raises:
        CpspecError: as ``measure_pass_costs`` raises it.
    """
    if engine_dir is None or not alone:
        raise UsageError("--measureCosts times an engine that exists: give it --engineDir only")
    path, costs = measure_pass_costs(engine_dir)
    for rows, seconds in zip(costs.rows, costs.seconds, strict=True):
        click.echo(f"{rows:3d} rows: {1e3 * seconds:8.3f} ms")
    click.echo(f"one head: {1e3 * costs.head_seconds:8.3f} ms")
    click.echo(f"written to {path}")
