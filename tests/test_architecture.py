"""The house keeps its order: imports go one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "cpspec_trt"
FLOORS = {
    "errors": 1,
    "files": 1,
    "checkpoint": 2,
    "text": 2,
    "devices": 2,
    "graphs": 3,
    "engines": 3,
    "kernels": 3,
    "builder": 4,
    "sampling": 4,
    "speculation": 4,
    "stages": 5,
    "pipelines": 6,
    "report": 7,
    "synthetic": 7,
    "api": 8,
    "bench": 8,
    "cli": 9,
}
LONGEST = 400  # lines of a module
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def room_of(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "cpspec_trt" and len(parts) > 1:
                yield node.lineno, parts[1]


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_its_own_floor_and_those_below(module: str) -> None:
    room = room_of(Path(module).parts)
    if room == "__init__":
        return
    for line, target in imported_rooms(PACKAGE / module):
        higher = FLOORS[target] > FLOORS[room]
        assert not higher, f"{module}:{line}: {room} (floor {FLOORS[room]}) imports {target} (floor {FLOORS[target]})"


def test_every_room_stands_in_the_map_and_on_the_page() -> None:
    rooms = {room_of(path.relative_to(PACKAGE).parts) for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}
    rooms -= {"__init__", "__pycache__"}
    assert rooms == FLOORS.keys()
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert not [room for room in rooms if f"`{room}" not in page]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_one_idea_and_at_most_400_lines(module: str) -> None:
    assert len((PACKAGE / module).read_text(encoding="utf-8").splitlines()) <= LONGEST
