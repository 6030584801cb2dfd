"""The summary fits a terminal and adds up."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cpspec_trt.report.summary import SummaryRow, print_summary


def printed(rows: list[SummaryRow]) -> list[str]:
    stream = io.StringIO()
    print_summary(rows, Console(file=stream, width=80))
    return stream.getvalue().splitlines()


def row(name: str, frames: int = 25, window: int = 3, reason: str = "stop") -> SummaryRow:
    return SummaryRow(name, reason, frames, frames * 0.08, 1.0, window, frames * 9, 1.7)


def test_every_line_fits_eighty_columns_and_no_cell_is_cut() -> None:
    lines = printed([row("0"), row("1", frames=4000, reason="length")])
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)


def test_the_realtime_factor_is_audio_seconds_per_compute_second() -> None:
    (line,) = [line for line in printed([row("0", frames=25)]) if line.strip().startswith("0 ")]
    assert line.split()[:5] == ["0", "25", "2.00", "1.00", "2.00"]


def test_a_total_adds_up_and_counts_finish_reasons() -> None:
    text = " ".join(" ".join(printed([row("0"), row("1"), row("2", reason="length")])).split())
    assert "all 75 6.00 3.00 2.00" in text
    assert "2 stop," in text
    assert "1 length" in text


def test_many_requests_are_summed_up_rather_than_listed() -> None:
    lines = printed([row(str(number)) for number in range(50)])
    assert len(lines) < 40
    assert any("30 more" in line for line in lines)


@pytest.mark.parametrize("reason", ["error", "nothing_to_say"])
@pytest.mark.parametrize("seconds", [0.0, 1.5])
def test_a_request_without_frames_has_no_rates_and_no_window(reason: str, seconds: float) -> None:
    text = " ".join(" ".join(printed([SummaryRow("0", reason, 0, 0.0, seconds, 0, 0, None)])).split())
    assert f"0 0 0.00 {seconds:.2f} – – – – {reason.replace('_', ' ')}" in text


def test_every_reason_is_counted_in_the_total_and_none_is_cut_at_eighty_columns() -> None:
    reasons = ["nothing_to_say"] * 12 + ["stop"] * 1000 + ["length"] * 20 + ["error"] * 3
    lines = printed([row(str(number), reason=reason) for number, reason in enumerate(reasons)])
    text = " ".join(" ".join(lines).split())
    column = [line[lines[2].index("finish") :].strip() for line in lines if line.strip()]
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    assert "nothing to say" in " ".join(column)
    assert "1000 stop, 20 length, 12 nothing to say, 3 error" in " ".join(column)
