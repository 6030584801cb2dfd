"""Run every rule, window and width over the same frames, and count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.policy import FixedPolicy
from cpspec_trt.speculation.predictor import Predictor
from cpspec_trt.speculation.rules import RULES
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus

TREES = ((2,), (2, 2), (2, 2, 2), (2, 2, 2, 2), (2,) * 5, (4,), (4, 2), (4, 4))


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table."""

    rule: str
    widths: tuple[int, ...]
    statistics: SpeculationStatistics

    def cells(self) -> list[str]:
        counts = self.statistics
        offsets = zip(counts.accepted, counts.reached, strict=True)
        shares = " ".join(f"{part / whole:.2f}" if whole else "–" for part, whole in offsets)
        tree = ",".join(map(str, self.widths)) if max(self.widths, default=1) > 1 else "–"
        rounds = f"{counts.codes_per_round:.2f}" if counts.codes_per_round else "1"
        window = str(len(self.widths) + 1) if self.widths else "off"
        return [self.rule, window, tree, rounds, f"{counts.passes / counts.frames:.2f}", shares or "–"]


HEADER = ["rule", "window", "widths", "codes per round", "passes per frame", "accepted of reached, by offset"]


def measure(
    predictor: Predictor,
    heads: np.ndarray,
    hidden: np.ndarray,
    first: np.ndarray,
    seeds: np.ndarray,
    frames: np.ndarray,
    filters: FilterParameters,
) -> Iterator[Row]:
    """Every combination over every frame, one by one; greedy, then sampled."""
    greedy = FilterParameters(filters.temperature, filters.top_k, filters.top_p, do_sample=False)
    plans = [("rejection", (1,) * drafts, greedy) for drafts in (1, 2, 3, 5, 7)]
    plans += [(name, (1,) * drafts, filters) for name in RULES for drafts in range(1, 8)]
    plans += [("coupled", widths, filters) for widths in TREES]
    for name, widths, own in plans:
        window = len(widths) + 1
        decoder = FrameDecoder(default_kernels(), predictor, heads, window, 1, RULES[name], policy=FixedPolicy(widths))
        statistics = SpeculationStatistics(SpeculationStatus(window, window))
        codes = np.empty((1, predictor.groups), np.int64)
        for at in range(len(first)):
            one = slice(at, at + 1)
            decoder.decode(hidden[one], first[one], seeds[one], frames[one], [own], codes, [statistics])
        yield Row("greedy" if own is greedy else name, widths, statistics)
