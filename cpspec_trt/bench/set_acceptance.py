"""Kernels under which drafts of random weights are accepted as often as one asks.

Heads of random weights draft laws that hardly overlap the target's, so nothing would be accepted and the cost of a
round that accepts could not be seen. Here everything is computed as always: drafts are made, verified and scored. Only
before acceptance each target row that has a draft is replaced by

    p = A q + (1 - A) [z],  z a code that q gives no chance

so that q overlaps it by sum of min(p, q) = A, and each rule keeps a draft that is reached with probability A: rejection
and block because p(x) / q(x) = A, coupling because z wins the shared race with probability 1 - A. What comes out is no
speech. Every result says so.
"""

from __future__ import annotations

import time

import numpy as np

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.native_library import NativeLibrary
from cpspec_trt.kernels.protocol import F32, I64, U32, U64, Rows, ragged_slots
from cpspec_trt.kernels.rules_protocol import AcceptanceRule, Tolerance


class SetAcceptance(NativeKernels):
    """The library's kernels with a chosen acceptance of chains.

    Attributes:
        seconds: spent on replacing laws, which no real run does.
    """

    def __init__(self, library: NativeLibrary, acceptance: float) -> None:
        super().__init__(library)
        self._acceptance = np.float32(acceptance)
        self.seconds = 0.0

    def accept_commit(
        self,
        target: F32,
        draft: F32,
        drafts: I64,
        rows: I64,
        counts: I64,
        seeds: U64,
        frames: U32,
        hidden: Rows,
        first_hidden: I64,
        codes: I64,
        last: I64,
        context: Rows,
        accepted: I64,
        commits: I64,
        rule: AcceptanceRule = AcceptanceRule.REJECTION,
        tolerance: Tolerance = 0.0,
        margins: F32 | None = None,
    ) -> None:
        """See ``RuleKernels.accept_commit``; ``target`` is overwritten where there are drafts."""
        began = time.perf_counter()
        if len(draft):
            owner, _ = ragged_slots(counts)
            slots = owner + np.arange(len(owner))  # one bonus row stands behind the drafts of each sequence before
            replaced = self._acceptance * draft
            replaced[np.arange(len(draft)), draft.argmin(axis=1)] += 1 - self._acceptance
            target[slots] = replaced
        self.seconds += time.perf_counter() - began
        super().accept_commit(
            target,
            draft,
            drafts,
            rows,
            counts,
            seeds,
            frames,
            hidden,
            first_hidden,
            codes,
            last,
            context,
            accepted,
            commits,
            rule,
            tolerance,
            margins,
        )
