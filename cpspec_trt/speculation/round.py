"""One draft/verify/accept transaction for a batch whose rows stand at different depths.

Indices (G code groups, head s predicts c_(s+1)). A row whose last committed code is c_m owns the context row
whose head m-1 produced it, and the predictor's logical length is m+1: c_m has not been fed yet.

    draft   slot t: head m+t on the context row proposes c_(m+1+t), t < n
    verify  feed c_m and the n drafts; row t is scored by head m+t: slot t for t < n, the bonus for t = n
    accept  a drafts stand and one code follows: m grows by a+1, row a becomes the context row

Row t is the state after the code *before* slot t was fed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cpspec_trt.kernels.protocol import F32, I64, Kernels
from cpspec_trt.speculation.predictor import Predictor
from cpspec_trt.speculation.rules import RowSampling, Rule, Slots


@dataclass(frozen=True, slots=True)
class FrameState:
    """Where each row of the batch stands; the arrays are updated in place.

    Attributes:
        codes: int64 [B, G], committed codes.
        last: int64 [B], index m of the last committed code.
        context: float32 [B, H], the row whose head produced it.
        sampling: parameters of the batch.
    """

    codes: I64
    last: I64
    context: F32
    sampling: RowSampling


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round did for the rows that took part.

    Attributes:
        rows: int64 [A], rows of the batch.
        proposed: int64 [A], drafts verified.
        accepted: int64 [A], drafts accepted; each row committed one code more.
    """

    rows: I64
    proposed: I64
    accepted: I64


class RoundRunner:
    """Runs rounds over buffers bound once."""

    def __init__(self, kernels: Kernels, predictor: Predictor, heads: F32, max_drafts: int, max_batch: int) -> None:
        """Bind the buffers.

        Args:
            kernels: the operations.
            predictor: the CodePredictor.
            heads: float32 [G-1, V, H], contiguous.
            max_drafts: the longest draft, 0 for plain steps only.
            max_batch: the largest batch.
        """
        self._kernels = kernels
        self._predictor = predictor
        self._heads = heads
        self._max_drafts = max_drafts
        codebook = heads.shape[1]
        self._draft_logits = np.empty((max_batch * max_drafts, codebook), np.float32)
        self._target_logits = np.empty((max_batch * (max_drafts + 1), codebook), np.float32)
        self._drafts = np.empty(max_batch * max_drafts, np.int64)
        self._fed = np.empty(max_batch * (max_drafts + 1), np.int64)
        self._accepted = np.empty(max_batch, np.int64)
        self._next = np.empty(max_batch, np.int64)
        self._commits = np.empty(max_batch, np.int64)

    def decide_first(self, state: FrameState, rule: Rule) -> None:
        """Decide c1 from the context row: every row stands at m = 0, nothing is drafted and nothing fed.

        Raises:
            RowNumericError: nothing can be drawn from a row of logits.
        """
        rows = np.arange(len(state.last))
        counts = np.zeros_like(rows)
        self._decide(state, rule, rows, counts, Slots.spread(rows, state.last, counts), state.context, rows)

    def run(self, state: FrameState, rule: Rule) -> Outcome:
        """Advance every unfinished row by one round; the window shrinks where less than it remains.

        Returns:
            What happened, valid until the next round.

        Raises:
            RowNumericError: nothing can be drawn from a row of logits.
        """
        batch, groups = state.codes.shape
        rows = np.flatnonzero(state.last < groups - 1)
        counts = np.minimum(self._max_drafts, groups - 2 - state.last[rows])
        slots = Slots.spread(rows, state.last[rows], counts)
        self._draft(state, rule, slots)
        width = int(counts.max()) + 1
        hidden = self._verify(state, rows, slots, width)
        outcome = self._decide(state, rule, rows, counts, slots, hidden, rows * width)
        commits = self._commits[:batch]
        commits.fill(0)
        commits[rows] = outcome.accepted + 1
        self._predictor.commit(commits)
        return outcome

    def _draft(self, state: FrameState, rule: Rule, slots: Slots) -> None:
        count = len(slots.row)
        if count:
            logits = self._draft_logits[:count]
            self._kernels.grouped_heads(state.context, slots.row, slots.depth - 1, self._heads, logits)
            rule.propose(logits, slots, state.sampling, self._drafts[:count])

    def _verify(self, state: FrameState, rows: I64, slots: Slots, width: int) -> F32:
        """Feed each row's last code and its drafts; float32 [B * width, H]."""
        batch = len(state.last)
        fed = self._fed[: batch * width].reshape(batch, width)
        fed.fill(0)
        fed[rows, 0] = state.codes[rows, state.last[rows]]
        fed[slots.row, 1 + slots.offset] = self._drafts[: len(slots.row)]
        return self._predictor.verify(fed).reshape(batch * width, -1)

    def _decide(
        self, state: FrameState, rule: Rule, rows: I64, counts: I64, drafted: Slots, hidden: F32, first_hidden: I64
    ) -> Outcome:
        """Score, accept and commit codes. Verified row t of sequence a is ``hidden[first_hidden[a] + t]``."""
        slots = Slots.spread(rows, state.last[rows], counts + 1)
        logits = self._target_logits[: len(slots.row)]
        sources = np.repeat(first_hidden, counts + 1) + slots.offset
        self._kernels.grouped_heads(hidden, sources, slots.depth - 1, self._heads, logits)
        drafts = self._drafts[: len(drafted.row)]
        accepted, codes = self._accepted[: len(rows)], self._next[: len(rows)]
        rule.decide(logits, slots, state.sampling, drafts, counts, accepted, codes)

        kept = drafted.offset < np.repeat(accepted, counts)
        state.codes[drafted.row[kept], drafted.depth[kept]] = drafts[kept]
        state.last[rows] += accepted + 1
        state.codes[rows, state.last[rows]] = codes
        state.context[rows] = hidden[first_hidden + accepted]
        return Outcome(rows, counts, accepted)
