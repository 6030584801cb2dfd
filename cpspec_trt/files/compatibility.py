"""Every flag and JSON field of the reference tools, and what this package does with it.

One table serves three readers: the request readers and the command lines take their refusals and
warnings from it, and ``docs/compatibility.md`` is its rendering (``files.compatibility_page``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cpspec_trt.files.compatibility_build import BUILD_ROWS
from cpspec_trt.files.compatibility_omni import OMNI_ROWS
from cpspec_trt.files.compatibility_row import (
    AUDIO_BUILD,
    BUILD,
    INFER,
    INFER_OMNI,
    INFER_TTS,
    LLM_BUILD,
    OMNI,
    TTS,
    Row,
    Status,
    Where,
)
from cpspec_trt.files.compatibility_tts import TTS_ROWS

__all__ = ["BUILD", "COMMANDS", "INFER", "OMNI", "ROWS", "TTS", "Row", "Status", "Where", "rows_for"]

# Which tools each command stands in for.
COMMANDS: dict[str, tuple[str, ...]] = {INFER: (TTS, INFER, OMNI), BUILD: (LLM_BUILD, AUDIO_BUILD, BUILD)}
# What holds when cpspec-infer stands in for one of its two tools: names that apply, and names of the other one.
_PATHS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    TTS: ((TTS, INFER, INFER_TTS), (OMNI, INFER_OMNI)),
    OMNI: ((OMNI, INFER, INFER_OMNI), (TTS, INFER_TTS)),
}
_FOREIGN = {
    TTS: "it belongs to Qwen3-Omni, which runs with --engineDir",
    OMNI: "it belongs to Qwen3-TTS, which runs without --engineDir",
}
# The Thinker's sampling values, which people who want speech write by mistake.
_THINKER_SAMPLING = ("temperature", "top_k", "top_p")

ROWS: tuple[Row, ...] = (*TTS_ROWS, *OMNI_ROWS, *BUILD_ROWS)


def rows_for(reader: str, where: Where) -> dict[str, Row]:
    """Name (aliases included) -> the row that decides it.

    Args:
        reader: a command (a key of ``COMMANDS``), whose options are the names of all its tools and where the
            tools differ the one that uses a name decides; or ``TTS`` or ``OMNI``, what ``cpspec-infer`` takes when it
            stands in for that tool: names that only the other one uses are refused.
        where: what kind of name.
    """
    if reader in COMMANDS:
        return _first_of(COMMANDS[reader], where)
    own, other = _PATHS[reader]
    foreign = {name: _foreign(reader, row) for name, row in _first_of(other, where).items()}
    return foreign | _first_of(own, where)


def _first_of(tools: tuple[str, ...], where: Where) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for row in _rows_of(tools, where):
        for name in (row.name, *row.aliases):
            if name not in found or (row.status == "used" and found[name].status != "used"):
                found[name] = row
    return found


def _rows_of(tools: tuple[str, ...], where: Where) -> Iterator[Row]:
    for tool in tools:
        yield from (row for row in ROWS if row.tool == tool and row.where == where)


def _foreign(reader: str, row: Row) -> Row:
    """The row of a name that only the other tool knows; what that tool does not do either keeps its own words."""
    if row.status != "used":
        return row
    speech = f"; for speech use talker_{row.name}" if reader == TTS and row.name in _THINKER_SAMPLING else ""
    return replace(row, status="refused", note=f"{_FOREIGN[reader]}{speech}")
