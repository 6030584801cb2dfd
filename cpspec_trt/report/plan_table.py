"""The build plan as a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from cpspec_trt.builder.profiles import BuildPlan
from cpspec_trt.files.manifest import Profile, Shape, ShapeRange

WIDENED = "◀ widened"
_NUMBERED = re.compile(r"(?P<stem>.*_)(?P<number>\d+)")


def print_plan(plans: Sequence[BuildPlan], console: Console) -> None:
    """Print one row per input and profile.

    Numbered inputs of the same range (one per layer) share a row, and so do two equal profiles.
    """
    caption = f"{WIDENED}: room for a verify pass; opt stays at one new position"
    table = Table(caption=caption if any(plan.widened for plan in plans) else None)
    for heading in ("component", "profile", "tensor"):
        table.add_column(heading, no_wrap=True)
    for heading in ("min", "opt", "max"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for plan in plans:
        for title, profile in _titled(plan.profiles):
            for name, found in _grouped(profile).items():
                mark = WIDENED if title == "generation" and name in plan.widened else ""
                sizes = (_text(found.min), _text(found.opt), _text(found.max))
                table.add_row(plan.component, title, name, *sizes, mark, style="bold" if mark else None)
            table.add_section()
    console.print(table)


def _titled(profiles: tuple[Profile, Profile]) -> list[tuple[str, Profile]]:
    context, generation = profiles
    if context.inputs == generation.inputs:
        return [("both", context)]
    return [("context", context), ("generation", generation)]


def _grouped(profile: Profile) -> dict[str, ShapeRange]:
    """Inputs with equal stems, ranks and ranges under one name: ``past_key_0 … 27``."""
    groups: dict[tuple[str, ShapeRange], list[str]] = {}
    for name, found in profile.inputs.items():
        numbered = _NUMBERED.fullmatch(name)
        groups.setdefault((numbered["stem"] if numbered else name, found), []).append(name)
    return {_group_name(stem, names): found for (stem, found), names in groups.items()}


def _group_name(stem: str, names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1].removeprefix(stem)}"


def _text(shape: Shape) -> str:
    return "×".join(str(size) for size in shape)
