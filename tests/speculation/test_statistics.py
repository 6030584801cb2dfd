"""Counters of a request."""

from __future__ import annotations

import json

from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus


def test_frames_add_up_offset_by_offset() -> None:
    statistics = SpeculationStatistics(SpeculationStatus(3, 3))
    statistics.add_frame("rejection", rounds=4, round_codes=6, proposed=[3, 2], reached=[3, 1], accepted=[1, 1])
    statistics.add_frame("rejection", rounds=2, round_codes=6, proposed=[2, 2], reached=[2, 2], accepted=[2, 2])
    assert statistics.frames == 2
    assert statistics.to_json() == {
        "requested": 3,
        "effective": 3,
        "rule": "rejection",
        "reason": None,
        "rows_exact": None,
        "tolerance": None,
        "tree_width": None,
        "passes": 8,
        "rounds": 6,
        "proposed": [5, 4],
        "reached": [5, 3],
        "accepted": [3, 3],
        "guarded": 0,
        "codes_per_round": 2.0,
        "choices": None,
        "probes": 0,
    }


def test_a_fallback_reports_its_reason_and_autoregressive_counts() -> None:
    statistics = SpeculationStatistics(SpeculationStatus(4, 0, "the codebook has 8192 codes"))
    statistics.add_autoregressive_frame(passes=15)
    assert json.loads(json.dumps(statistics.to_json())) == {
        "requested": 4,
        "effective": 0,
        "rule": None,
        "reason": "the codebook has 8192 codes",
        "rows_exact": None,
        "tolerance": None,
        "tree_width": None,
        "passes": 15,
        "rounds": 0,
        "proposed": [],
        "reached": [],
        "accepted": [],
        "guarded": 0,
        "codes_per_round": None,
        "choices": None,
        "probes": 0,
    }


def test_counters_handed_out_are_copies() -> None:
    statistics = SpeculationStatistics(SpeculationStatus(2, 2))
    statistics.add_frame("greedy", rounds=1, round_codes=2, proposed=[1], reached=[1], accepted=[1])
    handed = statistics.to_json()["accepted"]
    assert isinstance(handed, list)
    handed[0] = 99
    assert statistics.accepted == [1]


def test_what_an_adaptive_window_chose_is_counted_by_name() -> None:
    statistics = SpeculationStatistics(SpeculationStatus(8, 8, widths=None, adaptive=True))
    statistics.add_choices({(): 3, (1, 1): 2}, probes=1)
    statistics.add_choices({(2, 1): 4}, probes=0)
    found = statistics.to_json()
    assert found["requested"] == "auto"
    assert found["choices"] == {"0": 3, "1,1": 2, "2,1": 4}
    assert found["probes"] == 1


def test_a_tree_is_reported_by_its_widths() -> None:
    assert SpeculationStatistics(SpeculationStatus(3, 3, widths=(4, 2))).to_json()["tree_width"] == [4, 2]
