"""The margin guard: where passes of several rows round otherwise, codes are still those of the autoregressive loop."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.policy import FixedPolicy
from cpspec_trt.speculation.rules import RULES, Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics
from tests.speculation.toy import Toy, ToyPredictor, statistics_of

TOY = Toy.random(groups=8, codebook=3, seed=7)
GREEDY = FilterParameters(1.0, 0, 1.0, do_sample=False)
WARM = FilterParameters(0.9, 0, 1.0)
COLD = FilterParameters(0.3, 0, 1.0)
ROUNDING = 2e-4  # of a hidden row's entries; a logit moves by about .01
TOLERANCE = 0.1
BATCH = 240


class InexactPredictor(ToyPredictor):
    """Rows of a pass of several are disturbed; a pass of one is exact."""

    def verify(self, codes: np.ndarray) -> np.ndarray:
        return self._rounded(super().verify(codes))

    def verify_tree(self, codes: np.ndarray, depths: np.ndarray, parents: np.ndarray) -> np.ndarray:
        return self._rounded(super().verify_tree(codes, depths, parents))

    def _rounded(self, rows: np.ndarray) -> np.ndarray:
        if rows.shape[1] == 1:
            return rows
        return rows + np.random.default_rng(self.passes).normal(0, ROUNDING, rows.shape).astype(np.float32)


def _decode(
    window: int, filters: list[FilterParameters], rule: Rule, tolerance: float, frame: int = 0, width: int = 1
) -> tuple[np.ndarray, list[SpeculationStatistics]]:
    batch = len(filters)
    predictor, policy = InexactPredictor(TOY, batch), FixedPolicy((width,) * max(window - 1, 0))
    decoder = FrameDecoder(OracleKernels(), predictor, TOY.heads, window, batch, rule, tolerance, policy)
    codes, statistics = np.empty((batch, TOY.groups), np.int64), [statistics_of(window) for _ in range(batch)]
    seeds, frames = np.arange(batch, dtype=np.uint64), np.full(batch, frame)
    heads = np.zeros((batch, 4), np.float32), np.zeros(batch, np.int64)
    decoder.decode(*heads, seeds, frames, filters, codes, statistics)
    return codes, statistics


def _frames(
    window: int, filters: list[FilterParameters], rule: Rule, tolerance: float, width: int = 1
) -> tuple[int, int]:
    """How many of the rows got other codes than the autoregressive loop gives them, and how often the guard stepped in.

    Rows run in small batches, because a guarded row makes the next round of its whole batch a plain step.
    """
    different = guarded = 0
    for begin in range(0, len(filters), 4):
        part = filters[begin : begin + 4]
        plain, _ = _decode(0, part, rule, tolerance, begin)
        codes, statistics = _decode(window, part, rule, tolerance, begin, width)
        different += int((codes != plain).any(axis=1).sum())
        guarded += sum(each.guarded for each in statistics)
    return different, guarded


@pytest.mark.parametrize("window", [2, 4, 8])
@pytest.mark.parametrize("filters", [WARM, COLD], ids=["warm", "cold"])
def test_coupled_codes_follow_the_seed_with_the_guard_and_not_without(window: int, filters: FilterParameters) -> None:
    rows = [filters] * BATCH
    assert _frames(window, rows, RULES["coupled"], 0.0)[0] > 0
    different, guarded = _frames(window, rows, RULES["coupled"], TOLERANCE)
    assert different == 0
    assert guarded > 0


def test_codes_of_trees_follow_the_seed_with_the_guard_and_not_without() -> None:
    rows = [WARM] * BATCH
    assert _frames(4, rows, RULES["coupled"], 0.0, width=2)[0] > 0
    different, guarded = _frames(4, rows, RULES["coupled"], TOLERANCE, width=2)
    assert different == 0
    assert guarded > 0


def test_greedy_rows_of_a_tree_are_guarded_by_the_margin_of_their_logits() -> None:
    codes, statistics = _decode(3, [GREEDY] * 2, RULES["coupled"], 100.0, width=2)
    plain, _ = _decode(0, [GREEDY] * 2, RULES["coupled"], 100.0)
    assert codes.tolist() == plain.tolist()
    assert all(each.guarded > 0 and each.accepted == [0, 0] for each in statistics)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_greedy_rows_are_guarded_under_every_rule_beside_rows_that_sample(rule: str) -> None:
    toy_rows = [GREEDY, WARM] * 2
    codes, statistics = _decode(4, toy_rows, RULES[rule], 100.0)
    plain, _ = _decode(0, toy_rows, RULES[rule], 100.0)
    assert codes[::2].tolist() == plain[::2].tolist()
    assert all(each.guarded > 0 and each.accepted == [0, 0, 0] for each in statistics[::2])
    if rule != "coupled":
        assert all(each.guarded == 0 for each in statistics[1::2])


def test_a_plain_step_follows_a_guarded_round_and_drafting_resumes_behind_it() -> None:
    widths: list[int] = []

    class Watched(InexactPredictor):
        def verify(self, codes: np.ndarray) -> np.ndarray:
            widths.append(codes.shape[1])
            return super().verify(codes)

    decoder = FrameDecoder(OracleKernels(), Watched(TOY, 1), TOY.heads, 3, 1, RULES["coupled"], tolerance=100.0)
    statistics = statistics_of(3)
    codes = np.empty((1, TOY.groups), np.int64)
    one = np.zeros((1, 4), np.float32), np.zeros(1, np.int64), np.zeros(1, np.uint64), np.zeros(1, np.int64)
    decoder.decode(*one, [WARM], codes, [statistics])
    assert widths == [3, 1] * 4 + [2, 1] + [1]
    assert (statistics.guarded, statistics.rounds, statistics.round_codes) == (5, 11, 6)


def test_exact_passes_guard_nothing() -> None:
    decoder = FrameDecoder(OracleKernels(), ToyPredictor(TOY, 1), TOY.heads, 3, 1, RULES["coupled"])
    statistics = statistics_of(3)
    codes = np.empty((1, TOY.groups), np.int64)
    one = np.zeros((1, 4), np.float32), np.zeros(1, np.int64), np.zeros(1, np.uint64), np.zeros(1, np.int64)
    decoder.decode(*one, [WARM], codes, [statistics])
    assert statistics.guarded == 0
