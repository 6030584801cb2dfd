"""The table of the CPU benchmark; the times themselves are not tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import bench_kernels
from scripts.bench_kernels import BEGIN, END, Row, best_times, written_into


def test_a_row_says_how_many_times_as_fast_the_kernels_are() -> None:
    assert Row("draw", 8.04, "oracle", 220.14, 20.0).cells() == ["draw", "8.0", "oracle", "220.1", "27", "≥ 20"]
    assert Row("heads", 100.0, "plain read", 93.0, None).cells()[4:] == ["0.93", ""]


def test_every_work_takes_its_turn_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_kernels, "ROUNDS", 3)
    calls: list[str] = []
    times = best_times({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == ["a", "a", "b", "b"] * 3
    assert times.keys() == {"a", "b"}


def test_only_the_table_of_the_document_is_replaced() -> None:
    assert written_into(f"before\n{BEGIN}\nold\n{END}\nafter\n", ["new"]) == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


def test_the_document_has_a_place_for_the_table() -> None:
    document = Path(__file__).parents[2] / "docs" / "measurements" / "kernels.md"
    assert written_into(document.read_text(encoding="utf-8"), ["new"]).count("new\n" + END) == 1
