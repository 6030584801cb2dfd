"""The filter and the draw of every compiled implementation over a grid: the CPU library's bits, the oracle's ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.philox import Purpose, gumbel_of, stream, token_words
from cpspec_trt.kernels.protocol import Kernels
from tests.kernels import grid
from tests.kernels.grid import NEAR_BORDER, NEAR_TIE, UNDERFLOW, Point
from tests.kernels.implementations import CPU_LEVELS, cpu_kernels

ORACLE = OracleKernels()
SAMPLE = 200


@dataclass(frozen=True, slots=True)
class Sampled:
    probabilities: np.ndarray
    codes: np.ndarray
    errors: np.ndarray


def _noise(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(rows)
    depths, last = random.integers(2, 16, rows), random.integers(1, 14, rows)
    seeds = random.integers(0, 2**64, rows, dtype=np.uint64)
    return seeds, stream(Purpose.DRAFT, depths, last), random.integers(0, 4096, rows).astype(np.uint32)


def _sampled(kernels: Kernels, logits: np.ndarray, point: Point) -> Sampled:
    """Filter, then draw from the filter's own result."""
    probabilities = np.full(logits.shape, np.nan, np.float32)
    codes, errors = np.full(len(logits), -7), np.full(len(logits), 99, np.int32)
    kernels.filter(logits, point.filters, probabilities, errors)
    kernels.draw(probabilities, *_noise(len(logits)), codes)
    return Sampled(probabilities, codes, errors)


def _lead(probabilities: np.ndarray, row: int, rows: int) -> float:
    """By how much the winner of a row's race leads, in float64."""
    seeds, streams, frames = (each[row : row + 1] for each in _noise(rows))
    tokens = np.flatnonzero(probabilities)
    words = token_words(seeds, streams, frames, np.zeros(len(tokens), np.int64), tokens)
    scores = np.sort(np.log(probabilities[tokens].astype(float)) + gumbel_of(words).astype(float))
    return float(scores[-1] - scores[-2])


@dataclass(slots=True)
class Tally:
    """What was compared with the oracle and what was excused."""

    rows: int = 0
    near_border: int = 0
    near_ties: int = 0

    def compare(self, got: Sampled, want: Sampled, logits: np.ndarray, point: Point) -> None:
        assert not got.errors.any()
        border = grid.distance_to_border(logits, point) < NEAR_BORDER
        self.rows += len(logits)
        self.near_border += int(border.sum())
        ours, theirs = got.probabilities[~border], want.probabilities[~border]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6, err_msg=str(point))
        other_support = (ours > 0) != (theirs > 0)
        assert np.maximum(ours, theirs)[other_support].max(initial=0) < UNDERFLOW, point
        for row in np.flatnonzero((got.codes != want.codes) & ~border):
            assert _lead(want.probabilities[row], row, len(logits)) < NEAR_TIE, (point, row)
            self.near_ties += 1

    def assert_few_were_excused(self) -> None:
        # Flat and tied rows reach .8 exactly at many vocabularies: fifty equal candidates after forty.
        assert self.near_border <= 0.03 * self.rows
        assert self.near_ties <= 1 + 1e-4 * self.rows


def _expected(point: Point) -> tuple[np.ndarray, Sampled, Sampled]:
    """Logits, what the oracle makes of them and what the CPU library does."""
    logits = point.logits()
    return logits, _sampled(ORACLE, logits, point), _sampled(cpu_kernels(CPU_LEVELS[0]), logits, point)


_kept = cache(_expected)  # of the sample, for the next implementation


def _compare(native: NativeKernels, points: list[Point], expected: Callable[[Point], tuple] = _expected) -> None:
    tally = Tally()
    for point in points:
        logits, want, cpu = expected(point)
        got = _sampled(native, logits, point)
        np.testing.assert_array_equal(got.probabilities, cpu.probabilities, err_msg=str(point))
        np.testing.assert_array_equal(got.codes, cpu.codes, err_msg=str(point))
        tally.compare(got, want, logits, point)
    tally.assert_few_were_excused()


def test_the_sample_holds_every_value_of_every_axis_and_every_kind_of_row_alone_and_among_others() -> None:
    sample, whole = grid.sampled_grid(SAMPLE), list(grid.whole_grid())
    for axis in ("vocabulary", "rows", "top_p", "temperature", "dtype"):
        assert {getattr(point, axis) for point in sample} == {getattr(point, axis) for point in whole}
    for vocabulary in grid.VOCABULARIES:
        top_ks = {point.top_k for point in sample if point.vocabulary == vocabulary}
        assert top_ks == {0, 1, 50, vocabulary, vocabulary + 5}
    for rows in grid.ROWS:
        kinds = {int(kind) for point in sample if point.rows == rows for kind in point.kinds}
        assert kinds == set(range(len(grid.KINDS)))


def test_a_sample_of_the_grid_is_filtered_and_drawn_alike(native: NativeKernels) -> None:
    _compare(native, grid.sampled_grid(SAMPLE), _kept)


@pytest.mark.long
@pytest.mark.parametrize("vocabulary", grid.VOCABULARIES)
def test_the_whole_grid_is_filtered_and_drawn_alike(native: NativeKernels, vocabulary: int) -> None:
    _compare(native, [point for point in grid.whole_grid() if point.vocabulary == vocabulary])
