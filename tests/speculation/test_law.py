"""The joint law of a frame under rejection is the autoregressive law, by chi-square against enumeration.

Negative controls show that the test bites: each breaks one line of the rule and must be caught.
"""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from tests.speculation.laws import (
    BATCH,
    FEWER_FRAMES,
    FRAMES,
    LONG,
    LONG_FILTERS,
    P_BOUND,
    WIDE,
    WIDE_FILTERS,
    WINDOW_NAMES,
    WINDOWS,
    p_value,
    sample,
)
from tests.speculation.toy import TableKernels, Toy, ToyPredictor


@pytest.mark.parametrize(("toy", "filters"), [(WIDE, WIDE_FILTERS), (LONG, LONG_FILTERS)], ids=["wide", "long"])
def test_autoregressive_frames_have_the_enumerated_law(toy: Toy, filters: FilterParameters) -> None:
    codes, statistics = sample(toy, 0, filters)
    assert p_value(toy, filters, codes) > P_BOUND
    assert statistics.passes == (toy.groups - 1) * FRAMES


@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_rejection_keeps_the_joint_law(window: int, toy: Toy, filters: FilterParameters) -> None:
    codes, statistics = sample(toy, window, filters)
    assert p_value(toy, filters, codes) > P_BOUND
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
    codes, _ = sample(toy, window, filters, kernels=DrawsFromTargetAtRejection(toy), count=FEWER_FRAMES)
    assert p_value(toy, filters, codes) < P_BOUND


@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_the_law_breaks_when_rows_are_shifted_by_one(window: int, toy: Toy, filters: FilterParameters) -> None:
    shifted = ShiftedPredictor(toy, BATCH, one_hot=False)
    codes, _ = sample(toy, window, filters, predictor=shifted, count=FEWER_FRAMES)
    assert p_value(toy, filters, codes) < P_BOUND


@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_the_law_breaks_when_drafts_are_scored_with_the_unfiltered_law(
    window: int, toy: Toy, filters: FilterParameters
) -> None:
    codes, _ = sample(toy, window, filters, kernels=ScoresWithUnfilteredDraft(toy), count=FEWER_FRAMES)
    assert p_value(toy, filters, codes) < P_BOUND
