"""Rows of logits and filter parameters over which implementations are compared, and how near a row is to a border."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from cpspec_trt.kernels.protocol import FilterParameters, FilterRows

VOCABULARIES = (8, 97, 1024, 2048, 4096)
ROWS = (1, 7, 64)
KINDS = ("plain", "spread", "peaked", "flat", "tied", "masked")
FLOATS = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
NEAR_BORDER = 1e-6
NEAR_TIE = 1e-5
UNDERFLOW = 1e-37  # below it one implementation may round to 0 where another does not


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the grid."""

    vocabulary: int
    rows: int
    top_k: int
    top_p: float
    temperature: float
    dtype: str

    @property
    def filters(self) -> FilterRows:
        return FilterRows.pack([FilterParameters(self.temperature, self.top_k, self.top_p)] * self.rows)

    @property
    def kinds(self) -> np.ndarray:
        """What each row is like, an index into ``KINDS``: all by turns, the first one another at every point."""
        key = [self.vocabulary, self.rows, self.top_k, int(100 * self.top_p), int(10 * self.temperature)]
        first = int(np.random.default_rng(key).integers(len(KINDS)))
        return (first + np.arange(self.rows)) % len(KINDS)

    def logits(self) -> np.ndarray:
        """[rows, vocabulary], in the point's dtype."""
        random = np.random.default_rng([self.vocabulary, self.rows, self.top_k, int(10 * self.temperature)])
        kinds, shape = self.kinds, (self.rows, self.vocabulary)
        made = random.normal(size=shape) * np.array([1, 3, 12, 0, 1, 1])[kinds, None]
        made = np.where(kinds[:, None] == KINDS.index("tied"), random.integers(-2, 3, shape), made)
        masked = (kinds[:, None] == KINDS.index("masked")) & (random.random(shape) < 0.7)
        masked[:, self.vocabulary // 2] = False
        made[masked] = -np.inf
        return made.astype(FLOATS[self.dtype])


def whole_grid() -> Iterator[Point]:
    """Every point."""
    for vocabulary in VOCABULARIES:
        top_ks = dict.fromkeys((0, 1, 50, vocabulary, vocabulary + 5))
        for rows, top_k, top_p, temperature, dtype in itertools.product(
            ROWS, top_ks, (1.0, 0.8, 0.05), (0.2, 1.0, 3.0), FLOATS
        ):
            yield Point(vocabulary, rows, top_k, top_p, temperature, dtype)


def sampled_grid(count: int) -> list[Point]:
    """Points at random, the same every time, that together hold every value of every axis."""
    points = list(whole_grid())
    chosen = np.random.default_rng(0).choice(len(points), count, replace=False)
    return [points[index] for index in chosen]


def distance_to_border(logits: np.ndarray, point: Point) -> np.ndarray:
    """How far top_p is from every sum at which the support changes, as a share of a row's mass, in float64.

    Returns:
        float64 [rows].
    """
    rows = logits.astype(np.float64)
    if point.top_p >= 1:
        return np.ones(len(rows))
    falling = -np.sort(-rows, axis=1)[:, : point.top_k or None]
    weights = np.exp((falling - falling[:, :1]) / float(np.float32(point.temperature)))
    sums = np.cumsum(weights, axis=1)
    nearest: np.ndarray = np.abs(sums / sums[:, -1:] - float(np.float32(point.top_p))).min(axis=1)
    return nearest
