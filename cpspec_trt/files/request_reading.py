"""What reading a request file of either tool has in common: seeds, the compatibility table, and the words of errors.

Paths in messages are those of the document (``requests[0].messages[1].content``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from cpspec_trt.errors import InputFileError, UsageError
from cpspec_trt.files.compatibility import Row, Where, rows_for
from cpspec_trt.files.nearest_field import OWNERS, hint
from cpspec_trt.files.request_schema import LIMIT, LONE_SURROGATE, MAX_BATCH

DEFAULT_SEED = 42
_SEEDS = 2**64
Whole = TypeVar("Whole", bound=BaseModel)


def shown(value: object) -> str:
    """``value`` as it may stand in a one-line message: printable and short."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:50]}… ({len(text)} characters)"


def effective_seed(own: int | None, of_file: int | None, index: int) -> int:
    """The seed of a request, in [0, 2**64): its own, else the file's (42 if absent) plus its position."""
    seed = own if own is not None else (DEFAULT_SEED if of_file is None else of_file) + index
    return seed % _SEEDS


def check_batch_size(batch_size: int | None) -> None:
    """Refuse a ``--batchSize`` that no run can have.

    Raises:
        UsageError: it is not in 1 … 16.
    """
    if batch_size is not None and not 1 <= batch_size <= MAX_BATCH:
        raise UsageError(f"--batchSize is {batch_size}; give a whole number from 1 to {MAX_BATCH}")


def validate(kind: type[Whole], document: dict[str, Any], path: Path, expected: Mapping[str, str]) -> Whole:
    """The document as ``kind``.

    Args:
        kind: the model of the whole file.
        document: what the file holds.
        path: the file, for messages.
        expected: field name (``name[]`` for an element of a list) -> what it takes, as it stands after "write".

    Raises:
        InputFileError: the first fault, as `path is value; write what is expected`.
    """
    try:
        return kind.model_validate(document)
    except ValidationError as fault:
        optional = {name for name, field in kind.model_fields.items() if not field.is_required()}
        raise InputFileError(f"{path}: {_describe(fault, document, expected, optional)}") from None


def check_names(path: Path, document: dict[str, Any], tool: str, strict: bool) -> Iterator[str]:
    """Refuse and warn by the compatibility table of a tool; yields the warnings.

    Args:
        path: the file, for messages.
        document: a valid document.
        tool: ``TTS`` or ``OMNI``.
        strict: refuse unknown fields instead of warning about them.

    Raises:
        InputFileError: a refused field asks for something, or a field is unknown and ``strict`` is set.
    """
    known = {where: rows_for(tool, where) for where in OWNERS}
    for where, prefix, value in _objects(document):
        rows = known[where]
        for name, given in value.items():
            row, field = rows.get(name), f"{prefix}{name if name.isidentifier() else shown(name)}"
            if row is None:
                found = hint(name, where, known, tool)
                meant = f" ({found})" if found else ""
                if strict:
                    raise InputFileError(
                        f"{path}: {field} is not a known field{meant}; rename or remove it, or run without --strict"
                    )
                yield f"{path}: {field} is not a known field and is ignored{meant}"
            elif row.status != "used" and not _asks_for_nothing(row, given):
                if row.status == "refused":
                    raise InputFileError(f"{path}: {field} is {shown(given)}: {row.note}; remove the field")
                yield f"{path}: {field} is {shown(given)} and is ignored: {row.note}"


def _objects(document: dict[str, Any]) -> Iterator[tuple[Where, str, dict[str, Any]]]:
    """Every object of a valid document, with the prefix of its fields' paths."""
    yield "file field", "", document
    if isinstance(document.get("streaming"), dict):
        yield "streaming field", "streaming.", document["streaming"]
    for i, request in enumerate(document["requests"]):
        yield "request field", f"requests[{i}].", request
        for j, message in enumerate(request["messages"]):
            yield "message field", f"requests[{i}].messages[{j}].", message
            if isinstance(message["content"], list):
                for k, item in enumerate(message["content"]):
                    yield "content item field", f"requests[{i}].messages[{j}].content[{k}].", item


def _asks_for_nothing(row: Row, value: object) -> bool:
    return any(type(value) is type(harmless) and value == harmless for harmless in row.harmless)


def _describe(fault: ValidationError, document: dict[str, Any], wanted: Mapping[str, str], optional: set[str]) -> str:
    error = fault.errors(include_url=False, include_context=False)[0]
    path, name, value = _locate(error["loc"], document)
    expected = wanted[name]
    if error["type"] == "missing":
        return f"{path} is missing; add {expected}"
    if error["type"] == LIMIT:
        return f"{path} {error['msg']}"
    if error["type"] == LONE_SURROGATE:
        return f"{path} is {shown(value)}, which holds half a character (a lone surrogate); write whole characters"
    if value is None and name in optional:
        return f"{path} is null; write {expected}, or remove the field to use the default"
    if value == []:
        return f"{path} is empty; write {expected}"
    return f"{path} is {shown(value)}; write {expected}"


def _locate(loc: tuple[int | str, ...], document: Any) -> tuple[str, str, Any]:
    """Path, last field name ("name[]" for a list's element) and value of a fault.

    The parts of ``loc`` that pydantic adds for the branch of a union, or for the list that a single string stands
    for, name nothing in the document.
    """
    path, name, value = "", "", document
    for part in loc:
        if isinstance(part, int) and isinstance(value, list):
            path, name, value = f"{path}[{part}]", f"{name}[]", value[part]
        elif isinstance(part, str) and isinstance(value, dict):
            path, name, value = f"{path}.{part}" if path else part, part, value.get(part)
    return path, name, value
