"""Click options for the flags of the reference tools that a command refuses or ignores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from cpspec_trt.files.compatibility import Row, rows_for


def reference_options(command: str) -> Callable[[click.Command], click.Command]:
    """Add every refused or ignored flag of a command's reference tools as a hidden option.

    A refused flag ends in a usage error with the table's note, an ignored one prints a warning; a value
    that asks for nothing (the reference's default) passes in silence.
    """

    def add(target: click.Command) -> click.Command:
        taken = {name for parameter in target.params for name in parameter.opts}
        rows = {id(row): row for row in rows_for(command, "flag").values() if row.status != "used"}
        for row in rows.values():
            names = [name for name in (row.name, *row.aliases) if name not in taken]
            if names:
                target.params.append(_option(row, names))
        return target

    return add


def _option(row: Row, names: list[str]) -> click.Option:
    def react(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        source = context.get_parameter_source(parameter.name or "")
        if source is not click.core.ParameterSource.COMMANDLINE or _asks_for_nothing(row, value):
            return
        if row.status == "refused":
            raise click.BadParameter(row.note, ctx=context, param=parameter)
        click.echo(f"warning: {row.name} is ignored: {row.note}", err=True)

    destination = row.name.lstrip("-").replace("-", "_").lower()
    return click.Option(
        [*names, f"reference_{destination}"],
        is_flag=not row.metavar,
        expose_value=False,
        hidden=True,
        callback=react,
    )


def _asks_for_nothing(row: Row, value: Any) -> bool:
    return any(str(value) == str(harmless) for harmless in row.harmless)
