"""Frames of a toy under any rule, and how well they fit the toy's enumerated law."""

from __future__ import annotations

import numpy as np
from scipy import stats

from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.policy import FixedPolicy
from cpspec_trt.speculation.rules import DEFAULT_RULE, RULES, Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics
from tests.speculation.toy import TableKernels, Toy, ToyPredictor, statistics_of

FRAMES = 200_000
FEWER_FRAMES = 50_000  # a broken rule shows early
BATCH = 25_000
P_BOUND = 1e-4
# Six groups let a window of 4 propose all its drafts, ten groups one of 8.
WIDE = Toy.random(groups=6, codebook=4, seed=1)
LONG = Toy.random(groups=10, codebook=2, seed=2, spread=0.7)
WIDE_FILTERS = FilterParameters(0.9, 3, 0.95)
LONG_FILTERS = FilterParameters(0.8, 0, 0.9)
WINDOWS = [(2, WIDE, WIDE_FILTERS), (3, WIDE, WIDE_FILTERS), (4, WIDE, WIDE_FILTERS), (8, LONG, LONG_FILTERS)]
WINDOW_NAMES = [f"window {window}" for window, _, _ in WINDOWS]


def sample(
    toy: Toy,
    window: int,
    filters: FilterParameters,
    kernels: TableKernels | None = None,
    predictor: ToyPredictor | None = None,
    rule: Rule = RULES[DEFAULT_RULE],
    count: int = FRAMES,
    widths: tuple[int, ...] | None = None,
) -> tuple[np.ndarray, SpeculationStatistics]:
    """Frames from as many pairs of seed and frame index."""
    decoder = FrameDecoder(
        kernels or TableKernels(toy),
        predictor or ToyPredictor(toy, BATCH, one_hot=False),
        np.zeros((toy.groups - 1, toy.codebook, 1), np.float32),
        window,
        BATCH,
        rule,
        policy=None if widths is None else FixedPolicy(widths),
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


def p_value(toy: Toy, filters: FilterParameters, codes: np.ndarray) -> float:
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
