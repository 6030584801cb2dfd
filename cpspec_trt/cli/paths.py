"""Path arguments."""

from __future__ import annotations

from typing import Any

import click


class FullPath(click.Path):
    """A path that is not empty: an unset shell variable must not become the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse the empty string, then do what ``click.Path`` does."""
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)
