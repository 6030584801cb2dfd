"""Rounds that verify a tree of drafts: coupled candidates as a product, one pass, a walk, compaction of its rows.

The draft of a depth does not depend on the codes drafted before it, so the k_1 best of the first depth's race, the
k_2 best of the second's ... form a tree: k_1 children of c_m, k_2 of each of them, and so on. Nodes lie level by level,
siblings in the order of the race. Codes are the target's own draws (see ``RuleKernels.accept_tree``), so a tree changes
how far a round goes and no code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from cpspec_trt.kernels.philox import Purpose
from cpspec_trt.kernels.protocol import F32, I64, ragged_slots
from cpspec_trt.kernels.rules_protocol import RuleKernels
from cpspec_trt.speculation.guard import Guard
from cpspec_trt.speculation.predictor import Predictor
from cpspec_trt.speculation.round import FrameState, Outcome
from cpspec_trt.speculation.slots import Slots


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """The nodes of a product tree, the root first.

    Attributes:
        depths: int64 [S], distance from the root.
        parents: int64 [S], index of the parent; -1 for the root.
        ranks: int64 [S], place among the siblings.
    """

    depths: I64
    parents: I64
    ranks: I64

    @classmethod
    def of(cls, widths: tuple[int, ...]) -> TreeLayout:
        """The tree with ``widths[d]`` children of every node at depth d."""
        return _layout(widths)

    def path(self, node: int) -> list[int]:
        """The nodes from the root to one."""
        above = int(self.parents[node])
        return [node] if above < 0 else [*self.path(above), node]


@cache
def _layout(widths: tuple[int, ...]) -> TreeLayout:
    depths, parents, ranks = [0], [-1], [0]
    level = range(1)
    for depth, width in enumerate(widths, start=1):
        grown = [(parent, rank) for parent in level for rank in range(width)]
        level = range(len(depths), len(depths) + len(grown))
        depths += [depth] * len(grown)
        parents += [parent for parent, _ in grown]
        ranks += [rank for _, rank in grown]
    return TreeLayout(np.array(depths), np.array(parents), np.array(ranks))


def tree_rows(widths: tuple[int, ...]) -> int:
    """Rows of a pass that verifies the tree: 1 + k_1 + k_1 k_2 + ..."""
    rows = level = 1
    for width in widths:
        level *= width
        rows += level
    return rows


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Every node of a round, sequence after sequence.

    Attributes:
        counts: int64 [A], nodes of each sequence.
        owner: int64 [N], the sequence.
        slots: what each node's row decides; the offset is the node's depth.
        index: int64 [N], within the sequence.
        parents: int64 [N], as ``TreeLayout``.
        ranks: int64 [N], as ``TreeLayout``.
    """

    counts: I64
    owner: I64
    slots: Slots
    index: I64
    parents: I64
    ranks: I64

    @classmethod
    def spread(cls, rows: I64, last: I64, drafts: I64, widths: tuple[int, ...]) -> _Nodes:
        layouts = [TreeLayout.of(widths[:count]) for count in drafts.tolist()]
        counts = np.array([len(each.depths) for each in layouts])
        owner, index = ragged_slots(counts)
        slots = Slots(rows[owner], last[owner], np.concatenate([each.depths for each in layouts]))
        parents = np.concatenate([each.parents for each in layouts])
        return cls(counts, owner, slots, index, parents, np.concatenate([each.ranks for each in layouts]))


class TreeRunner:
    """Runs rounds with trees over buffers bound once; plain steps are ``RoundRunner``'s."""

    def __init__(
        self,
        kernels: RuleKernels,
        predictor: Predictor,
        heads: F32,
        max_drafts: int,
        max_width: int,
        max_rows: int,
        max_batch: int,
        tolerance: float,
    ) -> None:
        """Bind the buffers.

        Args:
            kernels: the operations.
            predictor: the CodePredictor.
            heads: float32 [G-1, V, H], contiguous.
            max_drafts: the most depths a tree may have below its root.
            max_width: the most children of a node.
            max_rows: the most nodes of a sequence.
            max_batch: the largest batch.
            tolerance: as for ``RoundRunner``.
        """
        self._kernels = kernels
        self._predictor = predictor
        self._heads = heads
        codebook = heads.shape[1]
        nodes, slots = max_batch * max_rows, max_batch * max_drafts
        self._guard = Guard(kernels, tolerance, nodes)
        self._logits = np.empty((nodes, codebook), np.float32)
        self._target = np.empty((nodes, codebook), np.float32)
        self._draft = np.empty((slots, codebook), np.float32)
        self._errors = np.empty(max(nodes, slots), np.int32)
        self._candidates = np.empty((slots, max_width), np.int64)
        self._lengths = np.empty(max_batch, np.int64)

    def run(self, state: FrameState, widths: tuple[int, ...]) -> Outcome:
        """Advance every unfinished row by one round; the tree is cut at the frame's end.

        Args:
            state: where the batch stands.
            widths: children per node by drafted depth, at least one depth.

        Returns:
            What happened, valid until the next round.

        Raises:
            RowNumericError: nothing can be drawn from a row of logits.
        """
        groups = state.codes.shape[1]
        rows = np.flatnonzero(state.last < groups - 1)
        last = state.last[rows]
        drafts = np.minimum(len(widths), groups - 2 - last)
        nodes = _Nodes.spread(rows, last, drafts, widths)
        codes = self._propose(state, Slots.spread(rows, last, drafts), nodes, drafts, widths)
        hidden, width = self._verify(state, nodes, codes)
        return self._decide(state, rows, drafts, nodes, codes, hidden, width)

    def _propose(self, state: FrameState, slots: Slots, nodes: _Nodes, drafts: I64, widths: tuple[int, ...]) -> I64:
        """The code of every node, int64 [N]; -1 where its depth has no such candidate."""
        sampling, count = state.sampling, len(slots.row)
        law, errors, wanted = self._draft[:count], self._errors[:count], self._candidates[:count]
        if count:
            logits, filters = self._logits[:count], sampling.filters.take(slots.row)
            self._kernels.score(state.context, slots.row, slots.head, self._heads, filters, logits, law, errors)
            slots.raise_faults(errors, sampling)
            noise = slots.streams(Purpose.TARGET), sampling.frames[slots.row]
            each = np.array(widths)[slots.offset]
            self._kernels.draw_candidates(law, each, sampling.seeds[slots.row], *noise, wanted)
        codes = np.empty(len(nodes.owner), np.int64)
        depth, begin = nodes.slots.offset, np.cumsum(drafts) - drafts
        below = depth > 0
        codes[below] = wanted[(begin[nodes.owner] + depth - 1)[below], nodes.ranks[below]]
        roots = ~below
        codes[roots] = state.codes[nodes.slots.row[roots], nodes.slots.last[roots]]
        return codes

    def _verify(self, state: FrameState, nodes: _Nodes, codes: I64) -> tuple[F32, int]:
        """Feed every node; float32 [B * width, H] and the width."""
        batch, width = len(state.last), int(nodes.counts.max())
        fed, depths = np.zeros((2, batch, width), np.int64)
        parents = np.full((batch, width), -1)
        at = nodes.slots.row, nodes.index
        fed[at], depths[at], parents[at] = np.maximum(codes, 0), nodes.slots.offset, nodes.parents
        return self._predictor.verify_tree(fed, depths, parents).reshape(batch * width, -1), width

    def _decide(
        self, state: FrameState, rows: I64, drafts: I64, nodes: _Nodes, codes: I64, hidden: F32, width: int
    ) -> Outcome:
        sampling, count = state.sampling, len(codes)
        logits, target, errors = self._logits[:count], self._target[:count], self._errors[:count]
        slots = nodes.slots
        sources, filters = slots.row * width + nodes.index, sampling.filters.take(slots.row)
        self._kernels.score(hidden, sources, slots.head, self._heads, filters, logits, target, errors)
        slots.raise_faults(errors, sampling)
        tolerance, margins = self._guard.check(logits, slots, sampling, width)
        depth = int(drafts.max()) + 1
        path, decided = np.empty((2, len(rows), depth), np.int64)
        lengths = self._lengths[: len(rows)]
        self._kernels.accept_tree(
            target,
            nodes.parents,
            codes,
            nodes.counts,
            state.last[rows],
            sampling.seeds[rows],
            sampling.frames[rows],
            path,
            lengths,
            decided,
            tolerance,
            margins,
        )
        guarded = decided[np.arange(len(rows)), lengths - 1] < 0
        committed = lengths - guarded
        self._commit(state, rows, committed, path, decided, hidden, width)
        return Outcome(rows, drafts, lengths - 1, committed)

    def _commit(
        self, state: FrameState, rows: I64, committed: I64, path: I64, decided: I64, hidden: F32, width: int
    ) -> None:
        owner, offset = ragged_slots(committed)
        state.codes[rows[owner], state.last[rows[owner]] + 1 + offset] = decided[owner, offset]
        state.last[rows] += committed
        moved = np.flatnonzero(committed)
        final = path[moved, committed[moved] - 1]
        state.context[rows[moved]] = hidden[rows[moved] * width + final]
        self._predictor.commit_path(rows, committed, path[owner, offset])
