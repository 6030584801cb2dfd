"""The times of a CodePredictor's passes, beside its engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpspec_trt.errors import EngineError
from cpspec_trt.files.pass_costs import PASS_COSTS_FILE, PassCosts, read_pass_costs

COSTS = PassCosts((1, 4, 8), (1.0, 1.6, 2.0), 0.1)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_pass_costs(tmp_path) is None
    COSTS.write(tmp_path)
    assert read_pass_costs(tmp_path) == COSTS


@pytest.mark.parametrize(("rows", "seconds"), [(1, 1.0), (2, 1.2), (4, 1.6), (6, 1.8), (8, 2.0), (16, 4.0)])
def test_sizes_between_two_lie_on_their_line_and_larger_ones_in_proportion(rows: int, seconds: float) -> None:
    assert COSTS.of_pass(rows) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"rows": [2, 4, 8]}, "'rows'"),
        ({"rows": [1, 8, 4]}, "'rows'"),
        ({"rows": []}, "'rows'"),
        ({"rows": 3}, "'rows'"),
        ({"rows": [1, "4", 8]}, "'rows'"),
        ({"rows": [1, 4.5, 8]}, "'rows'"),
        ({"rows": [True, 4, 8]}, "'rows'"),
        ({"rows": [1, [4], 8]}, "'rows'"),
        ({"seconds": [1.0, 2.0]}, "'seconds'"),
        ({"seconds": [1.0, 0.0, 2.0]}, "'seconds'"),
        ({"head_seconds": "0.1"}, "'head_seconds'"),
        ({"head_seconds": None}, "'head_seconds'"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, change: dict[str, object], field: str) -> None:
    content = {"rows": [1, 4, 8], "seconds": [1.0, 1.6, 2.0], "head_seconds": 0.1, **change}
    (tmp_path / PASS_COSTS_FILE).write_text(json.dumps(content))
    with pytest.raises(EngineError, match=rf"{PASS_COSTS_FILE}: .*{field}.*cpspec-build --measureCosts"):
        read_pass_costs(tmp_path)
