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


def apply_flag(row: Row, context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Do to a flag what its row of the compatibility table says.

    Raises:
        click.UsageError: it was given and is refused; the message is the row's note.
    """
    given = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
    if row.status == "used" or not given or _asks_for_nothing(row, value):
        return
    spelling = "/".join(parameter.opts)
    if row.status == "refused":
        raise click.UsageError(f"{spelling}: {row.note}", context)
    click.echo(f"warning: {spelling} is ignored: {row.note}", err=True)


def _option(row: Row, names: list[str]) -> click.Option:
    def react(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        apply_flag(row, context, parameter, value)

    destination = row.name.lstrip("-").replace("-", "_").lower()
    return click.Option(
        [*names, f"reference_{destination}"],
        is_flag=None if row.metavar else True,  # False would make the value optional, and -1 another option
        expose_value=False,
        hidden=True,
        callback=react,
    )


def _asks_for_nothing(row: Row, value: Any) -> bool:
    return any(str(value) == str(harmless) for harmless in row.harmless)
