"""The laws and frames that acceptance is measured on."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.protocol import FilterParameters
from scripts.acceptance.controlled import CODEBOOK, GROUPS, SETS, ControlledPredictor
from scripts.acceptance.expected import every_round, expected_codes
from scripts.acceptance.rounds import measure
from tests.kernels.test_rules_oracle import WORKED


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


@pytest.mark.parametrize(("draft", "target", "rejection", "block"), WORKED.values(), ids=WORKED)
def test_enumerated_rounds_give_the_worked_examples(
    draft: list[float], target: list[float], rejection: float, block: float
) -> None:
    found = expected_codes(np.array([target, target]), np.array([draft, draft]))
    assert found == pytest.approx((1 + rejection, 1 + block), abs=1e-12)


@pytest.mark.parametrize("overlap", [0.3, 0.5, 0.7])
def test_block_commits_at_least_as_many_codes_as_rejection_for_every_measured_pair_of_laws(overlap: float) -> None:
    predictor = ControlledPredictor(overlap)
    for drafts, (rejection, block) in {n: every_round(predictor, n).T for n in (1, 2)}.items():
        np.testing.assert_allclose(rejection, (1 - overlap ** (drafts + 1)) / (1 - overlap), atol=1e-5)
        assert (block >= rejection - 1e-12).all()
        assert ((block > rejection + 1e-3).all()) == (drafts > 1)
