"""The laws and frames that acceptance is measured on."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.protocol import FilterParameters
from scripts.acceptance.controlled import CODEBOOK, GROUPS, SETS, ControlledPredictor
from scripts.acceptance.rounds import measure


@pytest.mark.parametrize("overlap", [0.3, 0.5, 0.7])
def test_controlled_laws_have_the_overlap_that_was_asked_for(overlap: float) -> None:
    predictor = ControlledPredictor(overlap)
    np.testing.assert_allclose(np.minimum(predictor.targets, predictor.drafts).sum(axis=2), overlap, atol=1e-6)
    np.testing.assert_allclose(predictor.drafts.sum(axis=2), 1, atol=1e-9)
    assert predictor.heads.shape == (GROUPS - 1, CODEBOOK, SETS * GROUPS)
    assert overlap != pytest.approx(predictor.marginal_overlap())


def test_every_combination_is_measured_and_first_drafts_stand_as_often_as_the_laws_overlap() -> None:
    predictor, count = ControlledPredictor(0.5), 24
    hidden = (np.arange(count) % SETS)[:, None].astype(np.float32)
    arrays = hidden, np.zeros(count, np.int64), np.full(count, 7, np.uint64), np.arange(count)
    rows = list(measure(predictor, predictor.heads, *arrays, FilterParameters(1.0, 0, 1.0)))
    assert {row.rule for row in rows} == {"greedy", "rejection", "block", "coupled"}
    by_name = {(row.rule, row.widths): row for row in rows}
    first = by_name["rejection", (1,)].statistics
    share = first.accepted[0] / first.reached[0]
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(first.reached[0])
    passes = {widths: row.statistics.passes for (rule, widths), row in by_name.items() if rule == "coupled"}
    assert passes[2, 2, 2, 2, 2] < passes[1, 1, 1, 1, 1]
    assert all(len(row.cells()) == 6 for row in rows)
