"""Options that cannot work are refused before anything is opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.bench.options import BenchOptions
from cpspec_trt.bench.settings import settings_from
from cpspec_trt.errors import UsageError

REQUESTS = BenchOptions(
    engines=Path("engines"),
    input_file=Path("input.json"),
    settings=settings_from([3], ["rejection"]),
    stage="all",
    frames=25,
    repetitions=3,
    threads=None,
    synthetic=None,
    synthetic_directory=None,
    acceptance=None,
    seed=42,
)
SYNTHETIC: dict[str, Any] = {"engines": None, "input_file": None, "synthetic": "0.6B", "stage": "code_predictor"}
TREES = settings_from([3], ["coupled"], 2)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"stage": "code_predictor"},
        {"stage": "code2wav", "input_file": None},
        SYNTHETIC,
        SYNTHETIC | {"stage": "all", "input_file": Path("input.json")},
        SYNTHETIC | {"acceptance": 0.5, "synthetic_directory": Path("kept")},
        SYNTHETIC | {"settings": TREES},
    ],
)
def test_what_can_work_passes(given: dict[str, Any]) -> None:
    replace(REQUESTS, **given).check()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"frames": 0}, "--frames is 0"),
        ({"repetitions": -1}, "--repetitions is -1"),
        ({"threads": 0}, "--threads is 0"),
        ({"seed": -1}, "--seed is -1"),
        ({"engines": None}, "give either ENGINES"),
        ({"synthetic": "0.6B"}, "give either ENGINES"),
        (SYNTHETIC | {"synthetic": "7B"}, "must be one of 0.6B, 1.7B, Omni, tiny"),
        ({"synthetic_directory": Path("kept")}, "--syntheticDir has no meaning without"),
        ({"input_file": None}, "--inputFile is missing"),
        ({"stage": "code2wav"}, "--inputFile has no meaning"),
        (SYNTHETIC | {"input_file": Path("input.json")}, "--inputFile has no meaning"),
        ({"acceptance": 0.5}, "--acceptance needs --synthetic"),
        (SYNTHETIC | {"acceptance": 1.5}, "--acceptance is 1.5"),
        (SYNTHETIC | {"acceptance": float("nan")}, "--acceptance is nan"),
        (SYNTHETIC | {"acceptance": 0.5, "stage": "code2wav"}, "drafts nothing"),
        (SYNTHETIC | {"acceptance": 0.5, "settings": TREES}, "3 coupled tree 2,2 has trees"),
        (SYNTHETIC | {"acceptance": 0.5, "settings": settings_from(["auto"], ["coupled"])}, "auto coupled has trees"),
    ],
)
def test_what_cannot_work_is_named(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        replace(REQUESTS, **given).check()
