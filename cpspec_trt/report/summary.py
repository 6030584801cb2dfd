"""The table at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

MAX_ROWS = 20
_COLUMNS = ("frames", "audio\ns", "compute\ns", "realtime\nfactor", "window", "passes\n/frame", "codes\n/round")


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One finished request (or one way of running it).

    Attributes:
        name: first column.
        finish_reason: stop, length, nothing_to_say or error.
        frames: frames produced.
        audio_seconds: length of the audio.
        compute_seconds: wall-clock time of all stages.
        window: verify window that ran; 0 is the autoregressive loop.
        passes: passes of the CodePredictor's body.
        codes_per_round: mean committed codes per round, None without rounds.
    """

    name: str
    finish_reason: str
    frames: int
    audio_seconds: float
    compute_seconds: float
    window: int
    passes: int
    codes_per_round: float | None


def print_summary(rows: Sequence[SummaryRow], console: Console) -> None:
    """Print one line per request (the first 20) and a total."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("request", no_wrap=True)
    for heading in _COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("finish", overflow="fold", min_width=7)
    for row in rows[:MAX_ROWS]:
        table.add_row(*_cells(row))
    if len(rows) > MAX_ROWS:
        table.add_row(f"{len(rows) - MAX_ROWS} more", *[""] * (len(_COLUMNS) + 1))
    if len(rows) > 1:
        table.add_section()
        table.add_row(*_cells(_total(rows)))
    console.print(table)
    console.print(
        "realtime factor: audio seconds per compute second; passes: of the CodePredictor; window 0: autoregressive",
        style="dim",
    )


def _cells(row: SummaryRow) -> list[str]:
    # What a request without a frame would show is no rate and no window that ran.
    factor = f"{row.audio_seconds / row.compute_seconds:.2f}" if row.frames and row.compute_seconds else "–"
    window = str(row.window) if row.frames else "–"
    per_frame = f"{row.passes / row.frames:.1f}" if row.frames else "–"
    per_round = f"{row.codes_per_round:.2f}" if row.codes_per_round is not None else "–"
    seconds = (_seconds(row.audio_seconds), _seconds(row.compute_seconds))
    finish = row.finish_reason.replace("_", " ")
    return [row.name, str(row.frames), *seconds, factor, window, per_frame, per_round, finish]


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 1000 else f"{value:.0f}"


def _total(rows: Sequence[SummaryRow]) -> SummaryRow:
    reasons = Counter(row.finish_reason for row in rows)
    return SummaryRow(
        name="all",
        finish_reason=", ".join(f"{count} {reason}" for reason, count in reasons.most_common()),
        frames=sum(row.frames for row in rows),
        audio_seconds=sum(row.audio_seconds for row in rows),
        compute_seconds=sum(row.compute_seconds for row in rows),
        window=max(row.window for row in rows),
        passes=sum(row.passes for row in rows),
        codes_per_round=None,
    )
