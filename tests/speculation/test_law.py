"""The joint law of a frame under speculation is the autoregressive law, by chi-square against enumeration.

Negative controls show that the test bites: each breaks one line of the rule and must be caught.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.rules import DEFAULT_RULE, RULES, Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics
from tests.speculation.toy import TableKernels, Toy, ToyPredictor, statistics_of

FRAMES = 200_000
CONTROL_FRAMES = 50_000  # a broken rule shows early
BATCH = 25_000
P_BOUND = 1e-4
# Six groups let a window of 4 propose all its drafts, ten groups one of 8.
WIDE = Toy.random(groups=6, codebook=4, seed=1)
LONG = Toy.random(groups=10, codebook=2, seed=2, spread=0.7)
WIDE_FILTERS = FilterParameters(0.9, 3, 0.95)
LONG_FILTERS = FilterParameters(0.8, 0, 0.9)
WINDOWS = [(2, WIDE, WIDE_FILTERS), (3, WIDE, WIDE_FILTERS), (4, WIDE, WIDE_FILTERS), (8, LONG, LONG_FILTERS)]
WINDOW_NAMES = [f"window {window}" for window, _, _ in WINDOWS]


def _sample(
    toy: Toy,
    window: int,
    filters: FilterParameters,
    kernels: TableKernels | None = None,
    predictor: ToyPredictor | None = None,
    rule: Rule = RULES[DEFAULT_RULE],
    count: int = FRAMES,
) -> tuple[np.ndarray, SpeculationStatistics]:
    """Frames from as many pairs of seed and frame index."""
    decoder = FrameDecoder(
        kernels or TableKernels(toy),
        predictor or ToyPredictor(toy, BATCH, one_hot=False),
        np.zeros((toy.groups - 1, toy.codebook, 1), np.float32),
        window,
        BATCH,
        rule,
    )
    codes = np.empty((count, toy.groups), np.int64)
    statistics = statistics_of(window)
    for begin in range(0, count, BATCH):
        index = np.arange(begin, begin + BATCH)
        decoder.decode(
            np.zeros((BATCH, 1), np.float32),
            np.zeros(BATCH, np.int64),
            np.uint64(42) + (index // 50).astype(np.uint64),
            index % 50,
            [filters] * BATCH,
            codes[begin : begin + BATCH],
            [statistics] * BATCH,
        )
    return codes, statistics


def _p_value(toy: Toy, filters: FilterParameters, codes: np.ndarray) -> float:
    """Chi-square over all frames of the toy, cells that expect fewer than five pooled; 0 for an impossible frame."""
    law = toy.joint_law(filters)
    observed = np.bincount(toy.cells(codes), minlength=len(law))
    if observed[law == 0].any():
        return 0.0
    expected = law * len(codes)
    large = expected >= 5
    observed = np.append(observed[large], observed[~large].sum())
    expected = np.append(expected[large], expected[~large].sum())
    used = expected > 0
    return float(stats.chisquare(observed[used], expected[used]).pvalue)


@pytest.mark.parametrize(("toy", "filters"), [(WIDE, WIDE_FILTERS), (LONG, LONG_FILTERS)], ids=["wide", "long"])
def test_autoregressive_frames_have_the_enumerated_law(toy: Toy, filters: FilterParameters) -> None:
    codes, statistics = _sample(toy, 0, filters)
    assert _p_value(toy, filters, codes) > P_BOUND
    assert statistics.passes == (toy.groups - 1) * FRAMES


@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_rejection_keeps_the_joint_law(window: int, toy: Toy, filters: FilterParameters) -> None:
    codes, statistics = _sample(toy, window, filters)
    assert _p_value(toy, filters, codes) > P_BOUND
    assert len(statistics.proposed) == window - 1
    for proposed, reached, accepted in zip(statistics.proposed, statistics.reached, statistics.accepted, strict=True):
        assert proposed >= reached > accepted > 0


class DrawsFromTargetAtRejection(TableKernels):
    """No residual: the code after a rejection comes from p."""

    def accept_rejection(self, target, draft, drafts, counts, last, seeds, frames, accepted, codes):  # type: ignore[no-untyped-def]
        super().accept_rejection(target, draft, drafts, counts, last, seeds, frames, accepted, codes)
        rejected = np.flatnonzero(accepted < counts)
        begin = np.cumsum(counts + 1) - (counts + 1)
        replaced = np.empty(len(rejected), np.int64)
        streams = stream(Purpose.RESIDUAL, (last + 1 + accepted)[rejected], last[rejected])
        self.draw(target[(begin + accepted)[rejected]], seeds[rejected], streams, frames[rejected], replaced)
        codes[rejected] = replaced


class ShiftedPredictor(ToyPredictor):
    """Slot t is compared with row t+1."""

    def verify(self, codes: np.ndarray) -> np.ndarray:
        rows = super().verify(codes)
        following = np.minimum(np.arange(1, codes.shape[1] + 1), codes.shape[1] - 1)
        return np.where(np.isnan(rows[:, following]), rows, rows[:, following])


class ScoresWithUnfilteredDraft(TableKernels):
    """Drafts come from the filtered q, but acceptance sees the unfiltered one."""

    def draft(self, hidden, hidden_rows, head_rows, heads, filters, seeds, streams, frames, logits, *out):  # type: ignore[no-untyped-def]
        super().draft(hidden, hidden_rows, head_rows, heads, filters, seeds, streams, frames, logits, *out)
        unfiltered = FilterRows.pack([FilterParameters(1.0, 0, 1.0)]).take(np.zeros(len(logits), np.int64))
        self.filter(logits, unfiltered, out[0], np.empty(len(logits), np.int32))


@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_the_law_breaks_without_the_residual(window: int, toy: Toy, filters: FilterParameters) -> None:
    codes, _ = _sample(toy, window, filters, kernels=DrawsFromTargetAtRejection(toy), count=CONTROL_FRAMES)
    assert _p_value(toy, filters, codes) < P_BOUND


@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_the_law_breaks_when_rows_are_shifted_by_one(window: int, toy: Toy, filters: FilterParameters) -> None:
    shifted = ShiftedPredictor(toy, BATCH, one_hot=False)
    codes, _ = _sample(toy, window, filters, predictor=shifted, count=CONTROL_FRAMES)
    assert _p_value(toy, filters, codes) < P_BOUND


@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_the_law_breaks_when_drafts_are_scored_with_the_unfiltered_law(
    window: int, toy: Toy, filters: FilterParameters
) -> None:
    codes, _ = _sample(toy, window, filters, kernels=ScoresWithUnfilteredDraft(toy), count=CONTROL_FRAMES)
    assert _p_value(toy, filters, codes) < P_BOUND
