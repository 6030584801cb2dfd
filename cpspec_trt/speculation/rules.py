"""Acceptance rules: how drafts are proposed from logits, and how verified logits decide what is committed.

A rule sees logits and slots, never a cache. Every rule is lossless: the joint law of a frame's codes is that of
the autoregressive loop, for every window. A sequence without drafts is a plain autoregressive step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cpspec_trt.kernels.faults import raise_first
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import F32, I64, U32, U64, FilterParameters, FilterRows, Kernels, ragged_slots


@dataclass(frozen=True, slots=True)
class RowSampling:
    """What decides the draws of each row of the batch.

    Attributes:
        filters: filter parameters, B rows.
        seeds: uint64 [B], effective seed of the request.
        frames: uint32 [B], frame of the request.
    """

    filters: FilterRows
    seeds: U64
    frames: U32

    @classmethod
    def pack(cls, filters: Sequence[FilterParameters], seeds: np.ndarray, frames: np.ndarray) -> RowSampling:
        """Lay out the parameters of a batch."""
        return cls(FilterRows.pack(filters), np.asarray(seeds, np.uint64), np.asarray(frames, np.uint32))


@dataclass(frozen=True, slots=True)
class Slots:
    """A flat ragged batch of codes to decide: slot i of a sequence decides c_(m+1+i).

    Attributes:
        row: int64 [R], row of the batch.
        last: int64 [R], index m of the sequence's last committed code.
        offset: int64 [R], i.
    """

    row: I64
    last: I64
    offset: I64

    @classmethod
    def spread(cls, rows: I64, last: I64, counts: I64) -> Slots:
        """``counts[a]`` slots for each sequence: batch row ``rows[a]``, last committed code ``last[a]`` (int64 [A])."""
        owner, offset = ragged_slots(counts)
        return cls(rows[owner], last[owner], offset)

    @property
    def depth(self) -> I64:
        """int64 [R], RVQ depth of the code each slot decides."""
        return self.last + 1 + self.offset


class Rule(Protocol):
    """How a round proposes and decides."""

    name: str

    def propose(self, logits: F32, slots: Slots, sampling: RowSampling, drafts: I64) -> None:
        """Draft one code per slot.

        Args:
            logits: float32 [R, V], draft logits.
            slots: what each row decides.
            sampling: parameters of the batch.
            drafts: int64 [R], written.

        Raises:
            RowNumericError: nothing can be drawn from a row.
        """

    def decide(
        self,
        logits: F32,
        slots: Slots,
        sampling: RowSampling,
        drafts: I64,
        counts: I64,
        accepted: I64,
        codes: I64,
    ) -> None:
        """Accept a prefix of each sequence's drafts and choose the code after it.

        Args:
            logits: float32 [sum(counts + 1), V], logits of the verified rows.
            slots: what each verified row decides.
            sampling: parameters of the batch.
            drafts: int64 [sum(counts)], what ``propose`` wrote just before.
            counts: int64 [A], drafts of each sequence.
            accepted: int64 [A], written.
            codes: int64 [A], written.

        Raises:
            RowNumericError: nothing can be drawn from a row.
        """


class GreedyRule:
    """Accept while the draft equals the target's argmax; then emit that argmax."""

    name = "greedy"

    def __init__(self, kernels: Kernels, draft_rows: int, target_rows: int, codebook: int) -> None:
        """Bind the buffers of one batch: at most ``draft_rows`` drafts and ``target_rows`` verified rows a round."""
        self._kernels = kernels
        self._errors = np.empty(max(draft_rows, target_rows), np.int32)
        self._targets = np.empty(target_rows, np.int64)

    def propose(self, logits: F32, slots: Slots, sampling: RowSampling, drafts: I64) -> None:
        """See ``Rule.propose``."""
        errors = self._errors[: len(logits)]
        self._kernels.argmax(logits, drafts, errors)
        _raise_faults(errors, slots, sampling)

    def decide(
        self,
        logits: F32,
        slots: Slots,
        sampling: RowSampling,
        drafts: I64,
        counts: I64,
        accepted: I64,
        codes: I64,
    ) -> None:
        """See ``Rule.decide``."""
        errors, targets = self._errors[: len(logits)], self._targets[: len(logits)]
        self._kernels.argmax(logits, targets, errors)
        _raise_faults(errors, slots, sampling)
        self._kernels.accept_greedy(targets, drafts, counts, accepted, codes)


class RejectionRule:
    """Accept x ~ q with probability min(1, p(x)/q(x)); at the first rejection draw from norm(max(p - q, 0)).

    Rows with greedy parameters have one-hot p and q, for which this is the greedy rule: a batch may mix both.
    """

    name = "rejection"

    def __init__(self, kernels: Kernels, draft_rows: int, target_rows: int, codebook: int) -> None:
        """Bind the buffers of one batch: at most ``draft_rows`` drafts and ``target_rows`` verified rows a round."""
        self._kernels = kernels
        self._errors = np.empty(max(draft_rows, target_rows), np.int32)
        self._draft = np.empty((draft_rows, codebook), np.float32)
        self._target = np.empty((target_rows, codebook), np.float32)

    def propose(self, logits: F32, slots: Slots, sampling: RowSampling, drafts: I64) -> None:
        """See ``Rule.propose``."""
        probabilities = self._draft[: len(logits)]
        self._filter(logits, slots, sampling, probabilities)
        streams = stream(Purpose.DRAFT, slots.depth, slots.last)
        self._kernels.draw(probabilities, sampling.seeds[slots.row], streams, sampling.frames[slots.row], drafts)

    def decide(
        self,
        logits: F32,
        slots: Slots,
        sampling: RowSampling,
        drafts: I64,
        counts: I64,
        accepted: I64,
        codes: I64,
    ) -> None:
        """See ``Rule.decide``."""
        probabilities = self._target[: len(logits)]
        self._filter(logits, slots, sampling, probabilities)
        first = np.flatnonzero(slots.offset == 0)
        rows, last = slots.row[first], slots.last[first]
        self._kernels.accept_rejection(
            probabilities,
            self._draft[: len(drafts)],
            drafts,
            counts,
            last,
            sampling.seeds[rows],
            sampling.frames[rows],
            accepted,
            codes,
        )

    def _filter(self, logits: F32, slots: Slots, sampling: RowSampling, probabilities: F32) -> None:
        errors = self._errors[: len(logits)]
        self._kernels.filter(logits, sampling.filters.take(slots.row), probabilities, errors)
        _raise_faults(errors, slots, sampling)


def _raise_faults(errors: np.ndarray, slots: Slots, sampling: RowSampling) -> None:
    raise_first(errors, slots.row, sampling.frames[slots.row], slots.depth)
