"""A CodePredictor without a network: a table of conditionals whose joint law can be enumerated.

A node of the tree of prefixes stands for the codes c1 ... c_s fed so far (node 0 is the empty prefix, the children
of node v are V*v+1 ... V*v+V). The row at position p is the node of c1 ... c_(p-1), one-hot, so a head's weight
matrix is simply a table with one column of logits per node. c0 shifts nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cpspec_trt.kernels.oracle import OracleKernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.policy import FixedPolicy
from cpspec_trt.speculation.rules import DEFAULT_RULE, RULES, Rule
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus

GARBAGE = -1
OVERHANG = 8


@dataclass(frozen=True)
class Toy:
    """G code groups of V codes; ``heads[s][:, node]`` are the logits of c_(s+1) seen from a node."""

    groups: int
    codebook: int
    heads: np.ndarray

    @classmethod
    def random(cls, groups: int, codebook: int, seed: int, spread: float = 1.2, noise: float = 0.6) -> Toy:
        """True conditionals on the diagonal; from shallower nodes the mean over descendants, disturbed: a fair draft.

        From deeper nodes a head gives its ancestor's logits, disturbed: plausible, wrong, never to be read.
        """
        random = np.random.default_rng(seed)
        depths = groups - 1
        first = [(codebook**depth - 1) // (codebook - 1) for depth in range(depths + 1)]
        heads = np.empty((depths, codebook, first[depths]), np.float32)
        for head in range(depths):
            own = random.normal(0, spread, (codebook, codebook**head))
            for depth in range(depths):
                if depth <= head:
                    seen = own.reshape(codebook, codebook**depth, -1).mean(axis=2)
                else:
                    seen = np.repeat(own, codebook ** (depth - head), axis=1)
                disturbance = noise if depth != head else 0.0
                heads[head][:, first[depth] : first[depth + 1]] = seen + random.normal(0, disturbance, seen.shape)
        return cls(groups, codebook, heads)

    @cached_property
    def nodes(self) -> int:
        return int(self.heads.shape[2])

    def conditional(self, node: int, depth: int, filters: FilterParameters) -> np.ndarray:
        """Float64 law of c_depth after the prefix ``node``."""
        return filtered_law(self.heads[depth - 1, :, node].astype(float), filters)

    def joint_law(self, filters: FilterParameters) -> np.ndarray:
        """Float64 [V**(G-1)], probability of every frame, c1 the most significant digit."""
        law = np.ones(1)
        first = 0
        for depth in range(1, self.groups):
            rows = [self.conditional(first + index, depth, filters) for index in range(len(law))]
            first = first * self.codebook + 1
            law = (law[:, None] * np.array(rows)).ravel()
        return law

    def cells(self, codes: np.ndarray) -> np.ndarray:
        """Index into ``joint_law`` of every frame of ``codes`` [N, G]."""
        cells: np.ndarray = codes[:, 1:] @ self.codebook ** np.arange(self.groups - 2, -1, -1)
        return cells


def filtered_law(logits: np.ndarray, filters: FilterParameters) -> np.ndarray:
    """Temperature, top-k, top-p, renormalised, in float64."""
    law = np.zeros(len(logits))
    if filters.greedy:
        law[np.argmax(logits)] = 1
        return law
    order = np.argsort(-logits, kind="stable")[: filters.top_k or None]
    weights = np.exp((logits[order] - logits.max()) / filters.temperature)
    weights /= weights.sum()
    weights[np.cumsum(weights) - weights >= filters.top_p] = 0
    law[order] = weights / weights.sum()
    return law


class ToyPredictor:
    """``Predictor`` over a toy. Rows beyond a frame are NaN, and what a commit leaves behind is poisoned."""

    def __init__(self, toy: Toy, batch: int, one_hot: bool = True) -> None:
        """``one_hot=False`` gives rows that hold the node's number alone, for ``TableKernels``."""
        self.groups = toy.groups
        self.codebook = toy.codebook
        self.hidden_size = toy.nodes if one_hot else 1
        self._one_hot = one_hot
        self._nodes = np.full((batch, toy.groups + OVERHANG), GARBAGE)
        self.lengths = np.zeros(batch, np.int64)
        self.passes = 0

    def start_frame(self, talker_hidden: np.ndarray, first_codes: np.ndarray) -> np.ndarray:
        assert len(talker_hidden) == len(first_codes) == len(self.lengths)
        self.passes += 1
        self._nodes.fill(GARBAGE)
        self._nodes[:, 1] = 0
        self.lengths.fill(2)
        return self._rows(self._nodes[:, 1:2])[:, 0]

    def verify(self, codes: np.ndarray) -> np.ndarray:
        assert codes.shape[0] == len(self.lengths)
        assert codes.dtype == np.int64
        assert ((codes >= 0) & (codes < self.codebook)).all()
        self.passes += 1
        every = np.arange(len(codes))
        node = self._nodes[every, self.lengths - 1]
        assert (node != GARBAGE).all()
        rows = np.empty(codes.shape, np.int64)
        for slot in range(codes.shape[1]):
            position = self.lengths + slot
            node = np.where(
                (node == GARBAGE) | (position >= self.groups), GARBAGE, node * self.codebook + 1 + codes[:, slot]
            )
            self._nodes[every, position] = node
            rows[:, slot] = node
        return self._rows(rows)

    def verify_tree(self, codes: np.ndarray, depths: np.ndarray, parents: np.ndarray) -> np.ndarray:
        assert codes.dtype == depths.dtype == parents.dtype == np.int64
        assert ((codes >= 0) & (codes < self.codebook)).all()
        self.passes += 1
        every = np.arange(len(codes))
        self._tree = np.full(codes.shape, GARBAGE)
        for slot in range(codes.shape[1]):
            parent = parents[:, slot]
            assert (parent < slot).all()
            root = parent < 0
            assert (depths[:, slot] == np.where(root, 0, depths[every, parent] + 1)).all()
            above = np.where(root, self._nodes[every, self.lengths - 1], self._tree[every, parent])
            beyond = self.lengths + depths[:, slot] >= self.groups
            child = above * self.codebook + 1 + codes[:, slot]
            self._tree[:, slot] = np.where((above == GARBAGE) | beyond, GARBAGE, child)
        return self._rows(self._tree)

    def commit_path(self, rows: np.ndarray, counts: np.ndarray, sources: np.ndarray) -> None:
        kept = np.zeros(len(self.lengths), np.int64)
        kept[rows] = counts
        owner, offset = np.repeat(rows, counts), np.concatenate([np.arange(count) for count in counts])
        self._nodes[owner, self.lengths[owner] + offset] = self._tree[owner, sources]
        self.commit(kept)

    def commit(self, counts: np.ndarray) -> None:
        self.lengths += counts
        positions = np.arange(self._nodes.shape[1])
        self._nodes[positions >= self.lengths[:, None]] = GARBAGE

    def _rows(self, nodes: np.ndarray) -> np.ndarray:
        garbage = nodes == GARBAGE
        if not self._one_hot:
            return np.where(garbage, np.nan, nodes)[..., None].astype(np.float32)
        rows = np.zeros((*nodes.shape, self.hidden_size), np.float32)
        np.put_along_axis(rows, np.where(garbage, 0, nodes)[..., None], 1, axis=2)
        rows[garbage] = np.nan
        return rows


class TableKernels(OracleKernels):
    """The oracle, but a head looks its column up instead of multiplying by a one-hot row: the same numbers, fast."""

    def __init__(self, toy: Toy) -> None:
        super().__init__()
        self._tables = toy.heads

    def grouped_heads(
        self, hidden: np.ndarray, hidden_rows: np.ndarray, head_rows: np.ndarray, heads: np.ndarray, logits: np.ndarray
    ) -> None:
        nodes = hidden[hidden_rows, 0]
        assert not np.isnan(nodes).any(), "a garbage row was scored"
        logits[:] = self._tables[head_rows, :, nodes.astype(np.int64)]


def statistics_of(window: int) -> SpeculationStatistics:
    return SpeculationStatistics(SpeculationStatus(window, window))


def decode(
    toy: Toy,
    window: int,
    filters: list[FilterParameters],
    seeds: np.ndarray,
    frames: np.ndarray,
    rule: Rule = RULES[DEFAULT_RULE],
    widths: tuple[int, ...] | None = None,
) -> tuple[np.ndarray, list[SpeculationStatistics]]:
    """One frame per row through the real heads; codes [B, G] and the rows' statistics."""
    batch = len(seeds)
    predictor = ToyPredictor(toy, batch)
    decoder = FrameDecoder(
        OracleKernels(), predictor, toy.heads, window, batch, rule, policy=widths and FixedPolicy(widths)
    )
    codes = np.full((batch, toy.groups), -1)
    statistics = [statistics_of(window) for _ in range(batch)]
    first = np.zeros(batch, np.int64)
    decoder.decode(np.zeros((batch, 4), np.float32), first, seeds, frames, filters, codes, statistics)
    assert (predictor.lengths == toy.groups).all()
    return codes, statistics
