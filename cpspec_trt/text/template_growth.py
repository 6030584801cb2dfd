"""How large the result of a single operation of a template can get, computed before it runs.

Sizes count characters, and ``ELEMENT`` of them for an element of a container. The bounds hold for the methods and
filters whose result can be larger than what it is made from by more than a constant factor (such as that of escapes).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

ELEMENT = 16
_CONTAINERS = (list, tuple, set, frozenset, dict)
_SIZED = (str, bytes, *_CONTAINERS)
_WIDTH = re.compile(r"\d+")


def parts_of(value: object) -> Iterator[object]:
    """What a container holds directly; nothing of another value."""
    if isinstance(value, dict):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, _CONTAINERS):
        yield from value


def size_of(value: object, most: float = math.inf) -> int:
    """Size of a value written out: what stands in it twice counts twice. Stops counting above ``most``."""
    size, left = 0, [value]
    while left and size <= most:
        found = left.pop()
        size += _length(found) if isinstance(found, str | bytes) else ELEMENT * (1 + _length(found))
        if size <= most:
            left.extend(parts_of(found))
    return size


def of_product(left: object, right: object) -> int:
    """Of ``left * right``, if one of them is a sequence."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, str | bytes | list | tuple) and isinstance(times, int):
            return len(sequence) * times * (1 if isinstance(sequence, str | bytes) else ELEMENT)
    return 0


def of_format(pattern: str | bytes, arguments: object) -> int:
    """Of ``%`` and ``str.format``: any field may hold all arguments, and be as wide as the pattern or they say."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    fields = text.count("%") + text.count("{")
    widths = sum(int(digits[:18]) for digits in _WIDTH.findall(text))
    if "*" in text or re.search(r"\{[^{}]*\{", text):  # the width is an argument
        widths += fields * max(_whole_numbers(arguments), default=0)
    return len(text) + widths + fields * size_of(arguments)


def of_method(name: str, owner: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> int:
    """Of a method of a string, of bytes or of a number; 0 if it needs no bound.

    Raises:
        Exception: the arguments are none that the method takes.
    """
    return _METHODS[name](owner, *arguments, **named) if name in _METHODS else 0


def of_filter(name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> int:
    """Of a filter, whose first argument is the filtered value; as ``of_method``."""
    return _FILTERS[name](*arguments, **named) if name in _FILTERS else 0


def _length(value: object) -> int:
    return len(value) if isinstance(value, _SIZED) else 0


def _width(given: int | str | None) -> int:
    return given if isinstance(given, int) else _length(given)


def _whole_numbers(value: object) -> Iterator[int]:
    if isinstance(value, int):
        yield abs(value)
    for part in parts_of(value):
        yield from _whole_numbers(part)


def _depth(value: object) -> int:
    return 1 + max((_depth(part) for part in parts_of(value)), default=0)


def _pad(value: object, width: int = 80, *_: object) -> int:
    return width


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> int:
    if isinstance(text, bytes):
        return len(text) + text.count(old) * len(new)
    return len(str(text)) + str(text).count(str(old)) * len(str(new))


def _split(text: Any, sep: Any = None, maxsplit: int = -1) -> int:
    return int(ELEMENT * (len(text) // 2 + 1 if sep is None else text.count(sep) + 1))


def _join(separator: Any, items: object) -> int:
    return size_of(items) + len(separator) * _length(items)


def _lines(text: Any, *rest: object, **named: object) -> int:
    """Every character may be a line, and every argument may come with every line."""
    return (len(text) + 1) * (1 + sum(map(_length, (*rest, *named.values()))))


def _indent(text: Any, width: int | str = 4, *_: object, **__: object) -> int:
    return int((len(text) + 2) * (1 + _width(width)))


def _json(value: object, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, **_: object) -> int:
    size = size_of(value)
    between = sum(map(_length, separators or ())) + (_width(indent) * _depth(value) if indent else 0)
    return size + size // ELEMENT * between


def _chunks(value: object, count: int, fill_with: object = None) -> int:
    return ELEMENT * (_length(value) + count)


def _elements(value: object, *_: object, **__: object) -> int:
    return ELEMENT * _length(value)


_METHODS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("ljust", "rjust", "center", "zfill"), _pad),
    **dict.fromkeys(("split", "rsplit"), _split),
    "splitlines": _elements,
    "expandtabs": lambda text, tabsize=8: len(text) * max(tabsize, 1),
    "replace": _replace,
    "translate": lambda text, table: len(text) * max((1, *map(_length, parts_of(table)))),
    "join": _join,
    "to_bytes": lambda number, length=1, *_, **__: length,
}
_FILTERS: dict[str, Callable[..., int]] = {
    "center": _pad,
    "indent": _indent,
    "replace": _replace,
    "wordwrap": _lines,
    "urlize": lambda text, *rest, **named: 60 * len(text) + _lines(text, *rest, **named),
    "join": lambda value, d="", attribute=None: len(str(d)) * _length(value),
    "format": lambda pattern, *rest, **named: of_format(str(pattern), (rest, named)),
    "tojson": _json,
    **dict.fromkeys(("batch", "slice"), _chunks),
    **dict.fromkeys(("list", "sort", "groupby"), _elements),
}
