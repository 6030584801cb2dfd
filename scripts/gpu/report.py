"""The table of times that scripts/gpu_check.py prints and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

BEGIN, END = "<!-- timings: written by scripts/gpu_check.py -->", "<!-- end of timings -->"
NONE = "–"


@dataclass(frozen=True, slots=True)
class Reference:
    """The same work in PyTorch.

    Attributes:
        milliseconds: median; None where it failed.
        how: ``graph`` for replays of a captured graph, ``calls`` for call after call where it cannot be captured.
        uncaptured: why it cannot.
        fault: why it failed.
    """

    milliseconds: float | None = None
    how: Literal["graph", "calls"] = "calls"
    uncaptured: str | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One kernel at one size.

    Attributes:
        name: the operation.
        size: what it worked on, for people.
        size_bytes: what it must at least read and write.
        milliseconds: median of its graph's replays; None where it failed.
        fault: why it failed.
        reference: the same work in PyTorch; None where PyTorch is not installed.
    """

    name: str
    size: str
    size_bytes: int
    milliseconds: float | None = None
    fault: str | None = None
    reference: Reference | None = None

    def cells(self) -> list[str]:
        """Of the table's line."""
        own = bandwidth = theirs = ratio = NONE
        if self.milliseconds is not None:
            own = f"{1000 * self.milliseconds:.1f}"
            bandwidth = f"{self.size_bytes / self.milliseconds / 1e6:.0f}"
        reference = self.reference
        if reference is not None and reference.milliseconds is not None:
            theirs = f"{1000 * reference.milliseconds:.1f}" + (" ¹" if reference.how == "calls" else "")
            if self.milliseconds is not None:
                ratio = f"{reference.milliseconds / self.milliseconds:.1f}"
        return [self.name, self.size, own, f"{self.size_bytes / 1e6:.2f}", bandwidth, theirs, ratio]


def table(measurements: Sequence[Measurement]) -> list[str]:
    """Markdown: a row per measurement, then what failed or could not be captured."""
    lines = [
        "| operation | size | µs | MB | GB/s | PyTorch µs | ratio |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    lines += ["| " + " | ".join(each.cells()) + " |" for each in measurements]
    notes = [f"{each.name}, {each.size}: failed: {each.fault}" for each in measurements if each.fault]
    for each in measurements:
        if each.reference is not None and each.reference.fault:
            notes.append(f"{each.name}, {each.size}: PyTorch failed: {each.reference.fault}")
    uncaptured = sorted({each.reference.uncaptured for each in measurements if each.reference} - {None})  # type: ignore[type-var]
    notes += [f"¹ call after call, not as a graph, which PyTorch could not capture: {why}" for why in uncaptured]
    return lines + [line for note in notes for line in ("", note)]


def written_into(document: str, device: str, date: str, lines: Sequence[str]) -> str:
    """The document with what stands between its marks replaced.

    Raises:
        ValueError: it has no place for it.
    """
    if BEGIN not in document or END not in document:
        raise ValueError(f"the document lacks the lines {BEGIN!r} and {END!r}")
    before, rest = document.split(BEGIN)
    return before + "\n".join([BEGIN, f"{device}, {date}.", "", *lines, END]) + rest.split(END)[1]
