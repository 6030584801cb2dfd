"""What ``plugins/include/cpspec/kernels.h`` says of the arguments of every operation: structures, pointers, values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

HEADER = Path(__file__).parents[2] / "plugins" / "include" / "cpspec" / "kernels.h"

Sort = Literal["structure", "pointer", "value"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter, or one field of a structure.

    Attributes:
        name: in the header.
        sort: a structure by address (of the host), a pointer to memory of the device, or a value.
        c_type: name of the structure, or type of the value.
        table: for a pointer to pointers, True.
    """

    name: str
    sort: Sort
    c_type: str
    table: bool = False


@cache
def operations() -> dict[str, tuple[Parameter, ...]]:
    """Parameters of every operation, by name without the prefix; the stream is left out."""
    found = {}
    pattern = r"CPSPEC_API cpspec_status cpspec_(\w+)\(([^)]*),\s*cpspec_stream stream\);"
    for name, parameters in re.findall(pattern, _text()):
        found[name] = tuple(_parameter(each) for each in parameters.split(","))
    return found


@cache
def structures() -> dict[str, tuple[Parameter, ...]]:
    """Fields of every structure, by its C name."""
    found = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", _text(), re.DOTALL):
        found[name] = tuple(_parameter(each) for each in body.split(";") if each.strip())
    return found


@cache
def _text() -> str:
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)


def _parameter(declaration: str) -> Parameter:
    c_type, name = re.fullmatch(r"(.*?)(\w+)", " ".join(declaration.split())).groups()  # type: ignore[union-attr]
    base = c_type.replace("const", "").replace("*", "").strip()
    stars = c_type.count("*")
    is_structure = stars == 1 and base.startswith("cpspec_")
    sort: Sort = "structure" if is_structure else "pointer" if stars else "value"
    return Parameter(name, sort, base, table=stars == 2)
