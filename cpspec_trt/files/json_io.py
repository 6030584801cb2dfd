"""Strict JSON: one clear error for anything that is not the plain object it should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from cpspec_trt.errors import CpspecError
from cpspec_trt.files.atomic import write_text_atomic

MAX_JSON_BYTES = 256 * 1024 * 1024


def read_json(path: Path, error: type[CpspecError], what: str) -> dict[str, Any]:
    """Read one JSON object.

    Duplicate keys, NaN and Infinity literals, a byte order mark, invalid UTF-8, nesting beyond the
    parser's depth and a top level that is no object are refused.

    Args:
        path: the file.
        error: the exception class raised for any fault.
        what: what the file is, for the message ("request file", "engine manifest").

    Raises:
        error: one line that names the file, the fault and its position.
    """
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise error(f"{path}: the {what} is larger than {MAX_JSON_BYTES >> 20} MiB; split it into several files")
        raw = path.read_bytes()
    except FileNotFoundError:
        raise error(f"{path}: the {what} does not exist") from None
    except IsADirectoryError:
        raise error(f"{path}: is a directory, expected the {what}") from None
    except OSError as fault:
        raise error(f"{path}: cannot read the {what}: {fault.strerror}") from None
    value = _parse(raw, path, error, what)
    if not isinstance(value, dict):
        raise error(f"{path}: the {what} must be a JSON object, found {_json_type(value)}")
    return value


def write_json_atomic(path: Path, value: Any, indent: int = 2) -> None:
    """Write ``value`` as JSON so that a reader sees either the old file or the complete new one."""
    write_text_atomic(path, json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")


def _parse(raw: bytes, path: Path, error: type[CpspecError], what: str) -> Any:
    def refuse_constant(name: str) -> NoReturn:
        raise error(f"{path}: {name} is not JSON; write a finite number")

    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise error(f"{path}: the key {key!r} stands twice in one object; keep one of them")
            found[key] = value
        return found

    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise error(f"{path}: the {what} is not UTF-8 (byte {fault.start}); save it as UTF-8") from None
    if text.startswith("\ufeff"):
        raise error(f"{path}: the {what} starts with a byte order mark; save it as UTF-8 without one")
    try:
        return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=refuse_duplicates)
    except json.JSONDecodeError as fault:
        raise error(f"{path}: not JSON: {fault.msg} at line {fault.lineno} column {fault.colno}") from None
    except RecursionError:
        raise error(f"{path}: the {what} is nested too deeply") from None
    except ValueError as fault:  # an integer literal longer than Python converts
        raise error(f"{path}: not JSON this program can hold: {fault}") from None


def _json_type(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), type(value).__name__)
