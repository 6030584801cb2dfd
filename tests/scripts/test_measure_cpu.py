"""The tables of the CPU measurements; the times themselves are not tested."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from scripts.measure_cpu import BEGIN, END, READ, best_ms, child, written_into
from tests.conftest import ROOT


def test_every_work_takes_its_turn_in_every_round() -> None:
    calls: list[str] = []
    ticks = iter(range(100))
    works = {name: partial(calls.append, name) for name in "ab"}
    best = best_ms(works, lambda: float(next(ticks)), 3)
    assert calls == ["a", "b"] * 4, "once to warm up, then three rounds"
    assert best == {"a": 1000.0, "b": 1000.0}


def test_only_the_tables_of_the_document_are_replaced() -> None:
    document = (ROOT / "docs" / "measurements" / "cpu.md").read_text(encoding="utf-8")
    found = written_into(document, ["new"])
    assert found.split(f"{BEGIN}\nnew\n{END}") == [document.split(BEGIN)[0], document.split(END)[1]]


def test_a_child_says_how_much_memory_its_weights_take(tmp_path: Path, demo_engines: Path) -> None:
    np.zeros(1 << 24, np.uint8).tofile(tmp_path / "llm.onnx.data")
    found = child(tmp_path, READ)
    assert found["weights"] == 1 << 24
    assert 0.9 < found["peak"] / found["weights"] < 2
    assert child(demo_engines / "talker", "open")["peak"] > 0
