"""``cpspec-bench`` between its flags and its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from cpspec_trt.bench.charts import check_matplotlib, draw_charts
from cpspec_trt.bench.options import BenchOptions
from cpspec_trt.bench.run import run_bench
from cpspec_trt.bench.settings import Setting, settings_from
from cpspec_trt.bench.tables import print_result
from cpspec_trt.cli.steps import show_step
from cpspec_trt.errors import UsageError
from cpspec_trt.files.atomic import check_writable
from cpspec_trt.files.json_io import write_json_atomic


def bench(
    *,
    windows: Sequence[int | str],
    rules: Sequence[str],
    tree_width: int | tuple[int, ...],
    output_file: Path | None,
    plot_file: Path | None,
    **given: Any,
) -> None:
    """Check flags and places, measure, print and write.

    Raises:
        UsageError: before an engine is opened.
    """
    options = BenchOptions(settings=_settings(windows, rules, tree_width), **given)
    options.check()
    _check_targets(output_file, plot_file, options.input_file)
    if plot_file is not None:
        check_matplotlib()
    result = run_bench(options, show_step)
    print_result(result, Console())
    if output_file is not None:
        write_json_atomic(output_file, result)
    if plot_file is not None:
        draw_charts(result, plot_file)


def _settings(
    windows: Sequence[int | str], rules: Sequence[str], tree_width: int | tuple[int, ...]
) -> Sequence[Setting]:
    for flag, width in (("--cpSpecVerifySize", 1), ("--cpSpecTreeWidth", tree_width)):
        try:
            settings = settings_from(windows, rules, width)
        except UsageError as fault:
            raise UsageError(f"{flag}: {fault}") from None
    return settings


def _check_targets(output_file: Path | None, plot_file: Path | None, input_file: Path | None) -> None:
    taken = {input_file.resolve(): "--inputFile"} if input_file is not None else {}
    for flag, path in (("--outputFile", output_file), ("--plotFile", plot_file)):
        if path is None:
            continue
        other = taken.setdefault(path.resolve(), flag)
        if other != flag:
            raise UsageError(f"{flag} {path}: {other} needs the same place; give another file")
        try:
            check_writable(path)
        except OSError as fault:
            raise UsageError(f"{flag} {path}: cannot be written: {fault.strerror}; give another place") from None
