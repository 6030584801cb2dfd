"""Overlaps of a toy whose conditionals are known."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.bench.inputs import FrameInputs
from cpspec_trt.bench.laws import Laws, measure_laws
from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import FilterParameters
from tests.speculation.toy import Toy, ToyPredictor

TOY = Toy.random(groups=6, codebook=3, seed=5)
FILTERS = FilterParameters(temperature=0.8, top_k=0, top_p=0.95)
OFFSETS = 3


class Stage(ToyPredictor):
    """A toy that takes the passes of a stage."""

    max_rows = 3

    def reset(self) -> None:
        self.lengths.fill(0)


def measured(codes: np.ndarray, filters: FilterParameters = FILTERS) -> Laws:
    count = len(codes)
    inputs = FrameInputs(
        np.zeros((count, 4), np.float32), codes[:, 0], *np.zeros((2, count), np.uint64), (filters,) * count
    )
    return measure_laws(Stage(TOY, 1), OracleKernels(), TOY.heads, inputs, codes, OFFSETS)


def node_after(codes: np.ndarray, fed: int) -> int:
    """The node of c1 … c_fed."""
    node = 0
    for code in codes[1 : fed + 1]:
        node = 3 * node + 1 + int(code)
    return node


def test_every_pair_of_depth_and_offset_has_the_overlap_of_its_conditionals() -> None:
    """A draft at offset t for c_d is made from the row that saw t + 1 codes fewer than its target's."""
    codes = np.random.default_rng(0).integers(3, size=(4, 6))
    laws = measured(codes)
    for depth in range(1, 6):
        for offset in range(OFFSETS):
            overlaps = []
            for row in codes:
                if depth - 2 - offset < 0:
                    continue
                p = TOY.conditional(node_after(row, depth - 1), depth, FILTERS)
                q = TOY.conditional(node_after(row, depth - 2 - offset), depth, FILTERS)
                overlaps.append(np.minimum(p, q).sum())
            found = laws.alpha[depth - 1, offset]
            assert found == pytest.approx(np.mean(overlaps), abs=1e-6) if overlaps else np.isnan(found)


def test_marginal_entropy_and_top1_are_those_of_the_conditionals() -> None:
    codes = np.random.default_rng(1).integers(3, size=(3, 6))
    laws = measured(codes)
    for depth in range(1, 6):
        p = np.array([TOY.conditional(node_after(row, depth - 1), depth, FILTERS) for row in codes])
        others = [np.minimum(p[at], np.delete(p, at, axis=0).mean(axis=0)).sum() for at in range(3)]
        surprise = [-sum(value * np.log2(value) for value in law if value > 0) for law in p]
        assert laws.marginal[depth - 1] == pytest.approx(np.mean(others), abs=1e-6)
        assert laws.entropy[depth - 1] == pytest.approx(np.mean(surprise), abs=1e-5)
        assert laws.top1[depth - 1] == pytest.approx(p.max(axis=1).mean(), abs=1e-6)


def test_greedy_laws_overlap_wholly_or_not_at_all() -> None:
    codes = np.random.default_rng(2).integers(3, size=(1, 6))
    laws = measured(codes, FilterParameters(1.0, 0, 1.0, do_sample=False))
    known = laws.alpha[~np.isnan(laws.alpha)]
    assert len(known)
    assert set(known.tolist()) <= {0.0, 1.0}
    assert (laws.top1 == 1).all()
    assert (laws.entropy == 0).all()
