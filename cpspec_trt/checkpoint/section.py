"""Typed access to one object of a checkpoint's configuration. Nothing has a default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpspec_trt.errors import CheckpointError, UnsupportedError
from cpspec_trt.files.engine_config import MAX_COUNT, take
from cpspec_trt.files.json_io import read_json

_REMEDY = "copy the file again from the checkpoint that the weights belong to"


@dataclass(frozen=True, slots=True)
class Section:
    """An object of the configuration; ``name`` is its dotted path, '' for the whole file.

    Every method raises CheckpointError, naming file, field and value, if the field is missing or wrong.
    """

    path: Path
    name: str
    value: Mapping[str, Any]

    def section(self, field: str) -> Section:
        """A nested object."""
        return Section(self.path, self.field_name(field), self._take(field, dict))

    def optional(self, field: str) -> Section | None:
        """A nested object, or None if the field is absent or null."""
        return None if self.value.get(field) is None else self.section(field)

    def text(self, field: str) -> str:
        """A non-empty string."""
        found = self._take(field, str)
        if not found:
            raise self.error(field, "is empty")
        return str(found)

    def integer(self, field: str, minimum: int = 1, limit: int | None = None) -> int:
        """An integer of at least ``minimum`` and below ``limit``; a number of things (``num_…``) has a limit anyway."""
        if limit is None and field.startswith("num_"):
            limit = MAX_COUNT + 1
        return self._bounded(field, self._take(field, int), minimum, limit)

    def number(self, field: str) -> float:
        """A positive number."""
        found = float(self._take(field, float))
        if not 0 < found < float("inf"):
            raise self.error(field, f"is {found!r}, expected a positive number")
        return found

    def flag(self, field: str) -> bool:
        """True or false."""
        return bool(self._take(field, bool))

    def checked(self, field: str, kind: type[Any]) -> Any:
        """A value of a JSON type."""
        return self._take(field, kind)

    def indices(self, field: str, limit: int) -> tuple[int, ...]:
        """A list, possibly empty, of numbers in 0 … limit - 1."""
        found = self._take(field, list)
        if not all(type(item) is int and 0 <= item < limit for item in found):
            raise self.error(field, f"is {found!r:.60}, expected a list of numbers of at least 0 and below {limit}")
        return tuple(found)

    def integers(self, field: str) -> tuple[int, ...]:
        """A non-empty list of positive integers."""
        found = self._take(field, list)
        if not found or not all(type(item) is int and item > 0 for item in found):
            raise self.error(field, f"is {found!r:.60}, expected a list of positive integers")
        return tuple(found)

    def ids(self, field: str, limit: int) -> dict[str, int]:
        """A map from names to ids in 0 … limit - 1."""
        inner = self.section(field)
        return {name: inner.integer(name, minimum=0, limit=limit) for name in inner.value}

    def require(self, field: str, supported: Any) -> None:
        """Refuse a value that this release does not implement.

        Raises:
            UnsupportedError: the field is there and is neither null nor ``supported``.
        """
        found = self.value.get(field)
        if found is not None and found != supported:
            name = self.field_name(field)
            message = f"field {name!r} is {found!r:.60}, this release supports only {supported!r}"
            raise UnsupportedError(f"{self.path}: {message}")

    def field_name(self, field: str) -> str:
        """The dotted path of a field."""
        return f"{self.name}.{field}" if self.name else field

    def error(self, field: str, fault: str) -> CheckpointError:
        """The error for a field whose value cannot be right."""
        return CheckpointError(f"{self.path}: field {self.field_name(field)!r} {fault}; {_REMEDY}")

    def _take(self, field: str, kind: type[Any]) -> Any:
        name = self.field_name(field)
        value = {name: self.value[field]} if field in self.value else {}
        return take(value, name, kind, self.path, CheckpointError)

    def _bounded(self, field: str, found: int, minimum: int, limit: int | None) -> int:
        if found < minimum or (limit is not None and found >= limit):
            bounds = f"at least {minimum}" + (f" and below {limit}" if limit is not None else "")
            raise self.error(field, f"is {found}, expected {bounds}")
        return found


def read_section(path: Path, what: str) -> Section:
    """The whole of a configuration file. Raises CheckpointError if it is missing or no JSON object."""
    return Section(path, "", read_json(path, CheckpointError, what))
