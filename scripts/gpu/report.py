"""The table of times that scripts/gpu_check.py prints and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BEGIN, END = "<!-- timings: written by scripts/gpu_check.py -->", "<!-- end of timings -->"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One kernel at one size.

    Attributes:
        name: the operation.
        size: what it worked on, for people.
        size_bytes: what it must at least read and write.
        milliseconds: median of its graph's replays.
        reference: the same of the same work in PyTorch; None where PyTorch is not installed.
    """

    name: str
    size: str
    size_bytes: int
    milliseconds: float
    reference: float | None

    @property
    def bandwidth(self) -> float:
        """GB/s."""
        return self.size_bytes / self.milliseconds / 1e6


def table(measurements: Sequence[Measurement]) -> list[str]:
    """Markdown, a row per measurement."""
    lines = [
        "| operation | size | µs | MB | GB/s | PyTorch µs | ratio |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for each in measurements:
        reference = ratio = "–"
        if each.reference is not None:
            reference = f"{1000 * each.reference:.1f}"
            ratio = f"{each.reference / each.milliseconds:.1f}"
        lines.append(
            f"| {each.name} | {each.size} | {1000 * each.milliseconds:.1f} | {each.size_bytes / 1e6:.2f} "
            f"| {each.bandwidth:.0f} | {reference} | {ratio} |"
        )
    return lines


def written_into(document: str, device: str, date: str, measurements: Sequence[Measurement]) -> str:
    """The document with its table replaced.

    Raises:
        ValueError: it has no place for one.
    """
    if BEGIN not in document or END not in document:
        raise ValueError(f"the document lacks the lines {BEGIN!r} and {END!r}")
    before, rest = document.split(BEGIN)
    lines = [BEGIN, f"{device}, {date}. Medians of graph replays.", "", *table(measurements), END]
    return before + "\n".join(lines) + rest.split(END)[1]
