"""Values of the flags of speculation."""

from __future__ import annotations

import click

AUTO = "auto"


class WindowValue(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3
    """A whole number, or ``auto``."""

    name = "integer or auto"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """See ``click.ParamType``."""
        if value == AUTO:
            return AUTO
        try:
            return int(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither a whole number nor {AUTO}.", param, ctx)


class WindowList(click.ParamType):  # type: ignore[type-arg]  # see above
    """Windows with commas between them."""

    name = "integer list"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int | str, ...]:
        """See ``click.ParamType``."""
        if isinstance(value, tuple):
            return value
        return tuple(WindowValue().convert(part.strip(), param, ctx) for part in str(value).split(","))


class WidthValue(click.ParamType):  # type: ignore[type-arg]  # see above
    """A whole number, or one per drafted depth with commas between them."""

    name = "integer list"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | tuple[int, ...]:
        """See ``click.ParamType``."""
        try:
            widths = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no whole number, nor several with commas between them.", param, ctx)
        return widths if len(widths) > 1 else widths[0]
