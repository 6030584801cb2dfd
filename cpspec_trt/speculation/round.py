"""One draft/verify/accept transaction for a batch whose rows stand at different depths.

Indices (G code groups, head s predicts c_(s+1)). A row whose last committed code is c_m owns the context row
whose head m-1 produced it, and the predictor's logical length is m+1: c_m has not been fed yet.

    draft   slot t: head m+t on the context row proposes c_(m+1+t), t < n
    verify  feed c_m and the n drafts; row t is scored by head m+t: slot t for t < n, the bonus for t = n
    accept  a drafts stand and one code follows: m grows by a+1, row a becomes the context row

Row t is the state after the code *before* slot t was fed.

Where passes of several rows round otherwise than passes of one, a verified row that decides by less than a tolerance
is guarded (see ``kernels.rules_protocol``): a drafts stand, no code follows, and the caller makes the next round of the
whole batch a plain step, whose pass has one row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cpspec_trt.kernels.protocol import F32, I64
from cpspec_trt.kernels.rules_protocol import RuleKernels
from cpspec_trt.speculation.guard import Guard
from cpspec_trt.speculation.predictor import Predictor
from cpspec_trt.speculation.rules import Rule
from cpspec_trt.speculation.slots import RowSampling, Slots


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

    @property
    def finished(self) -> bool:
        """Whether every row holds all its codes."""
        return bool((self.last == self.codes.shape[1] - 1).all())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round did for the rows that took part.

    Attributes:
        rows: int64 [A], rows of the batch.
        proposed: int64 [A], drafts verified.
        accepted: int64 [A], drafts accepted.
        committed: int64 [A], codes committed: one more than was accepted, or as many where a row was guarded.
    """

    rows: I64
    proposed: I64
    accepted: I64
    committed: I64

    @property
    def guarded(self) -> np.ndarray:
        """bool [A], where a decision was left to a plain step."""
        return np.asarray(self.committed == self.accepted)


class RoundRunner:
    """Runs rounds over buffers bound once."""

    def __init__(
        self,
        kernels: RuleKernels,
        predictor: Predictor,
        heads: F32,
        max_drafts: int,
        max_batch: int,
        rule: Rule,
        tolerance: float,
    ) -> None:
        """Bind the buffers.

        Args:
            kernels: the operations.
            predictor: the CodePredictor.
            heads: float32 [G-1, V, H], contiguous.
            max_drafts: the longest draft, 0 for plain steps only.
            max_batch: the largest batch.
            rule: how sampled drafts are accepted.
            tolerance: gap of logits below which a pass of several rows decides nothing, 0 where its bits are those
                of single rows.
        """
        self._kernels = kernels
        self._predictor = predictor
        self._heads = heads
        self._rule = rule
        codebook = heads.shape[1]
        slots, verified = max_batch * max_drafts, max_batch * (max_drafts + 1)
        self._logits = np.empty((verified, codebook), np.float32)
        self._draft = np.empty((slots, codebook), np.float32)
        self._target = np.empty((verified, codebook), np.float32)
        self._drafts = np.empty(slots, np.int64)
        self._fed = np.empty(verified, np.int64)
        self._errors = np.empty(verified, np.int32)
        self._guard = Guard(kernels, tolerance, verified)
        self._accepted = np.empty(max_batch, np.int64)
        self._commits = np.empty(max_batch, np.int64)

    def decide_first(self, state: FrameState, hidden: F32) -> None:
        """Decide c1: every row stands at m = 0, nothing is drafted and nothing fed.

        Args:
            state: where the batch stands.
            hidden: float32 [B, H], the rows that predict c1.

        Raises:
            RowNumericError: nothing can be drawn from a row of logits.
        """
        rows = np.arange(len(state.last))
        self._decide(state, rows, np.zeros_like(rows), hidden, 1)

    def run(self, state: FrameState, drafts: int) -> Outcome:
        """Advance every unfinished row by one round; the window shrinks where less than it remains.

        Args:
            state: where the batch stands.
            drafts: how many codes are drafted, 0 for a plain step.

        Returns:
            What happened, valid until the next round.

        Raises:
            RowNumericError: nothing can be drawn from a row of logits.
        """
        groups = state.codes.shape[1]
        rows = np.flatnonzero(state.last < groups - 1)
        counts = np.minimum(drafts, groups - 2 - state.last[rows])
        drafted = Slots.spread(rows, state.last[rows], counts)
        self._propose(state, drafted)
        width = int(counts.max()) + 1
        hidden = self._verify(state, rows, drafted, width)
        outcome = self._decide(state, rows, counts, hidden, width)
        self._predictor.commit(self._commits[: len(state.last)])
        return outcome

    def _propose(self, state: FrameState, slots: Slots) -> None:
        count = len(slots.row)
        if not count:
            return
        errors, sampling = self._errors[:count], state.sampling
        self._kernels.draft(
            state.context,
            slots.row,
            slots.head,
            self._heads,
            sampling.filters.take(slots.row),
            sampling.seeds[slots.row],
            slots.streams(self._rule.draft_noise),
            sampling.frames[slots.row],
            self._logits[:count],
            self._draft[:count],
            self._drafts[:count],
            errors,
        )
        slots.raise_faults(errors, sampling)

    def _verify(self, state: FrameState, rows: I64, slots: Slots, width: int) -> F32:
        """Feed each row's last code and its drafts; float32 [B * width, H]."""
        batch = len(state.last)
        fed = self._fed[: batch * width].reshape(batch, width)
        fed.fill(0)
        fed[rows, 0] = state.codes[rows, state.last[rows]]
        fed[slots.row, 1 + slots.offset] = self._drafts[: len(slots.row)]
        return self._predictor.verify(fed).reshape(batch * width, -1)

    def _decide(self, state: FrameState, rows: I64, counts: I64, hidden: F32, width: int) -> Outcome:
        """Score, accept and commit. Verified row t of batch row b is ``hidden[b * width + t]``."""
        sampling, begun = state.sampling, state.last[rows]
        slots = Slots.spread(rows, begun, counts + 1)
        verified = len(slots.row)
        errors, logits, target = self._errors[:verified], self._logits[:verified], self._target[:verified]
        self._kernels.score(
            hidden,
            slots.row * width + slots.offset,
            slots.head,
            self._heads,
            sampling.filters.take(slots.row),
            logits,
            target,
            errors,
        )
        slots.raise_faults(errors, sampling)
        drafts = verified - len(rows)
        accepted = self._accepted[: len(rows)]
        tolerance, margins = self._guard.check(logits, slots, sampling, width)
        self._kernels.accept_commit(
            target,
            self._draft[:drafts],
            self._drafts[:drafts],
            rows,
            counts,
            sampling.seeds[rows],
            sampling.frames[rows],
            hidden,
            rows * width,
            state.codes,
            state.last,
            state.context,
            accepted,
            self._commits[: len(state.last)],
            self._rule.acceptance,
            tolerance,
            margins,
        )
        return Outcome(rows, counts, accepted, state.last[rows] - begun)
