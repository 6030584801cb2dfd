"""The operations of drafting, verifying and accepting, as any implementation must offer them.

Arrays in, arrays out, in the manner of a plain C interface: every operation works on R independent rows,
writes into buffers of the caller and keeps nothing between calls. A row's result depends on that row alone,
bit for bit, however many others stand in the same call.

A ragged batch lies flat. ``counts[a]`` says how many slots sequence a has; its slots follow one another, and
sequences follow one another: see ``ragged_slots``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cpspec_trt.errors import UsageError

F32 = NDArray[np.float32]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

GREEDY_BELOW = 1e-3


@dataclass(frozen=True, slots=True)
class FilterParameters:
    """How one request turns logits into probabilities.

    Attributes:
        temperature: divides the logits; below 1e-3 the row is greedy.
        top_k: how many candidates survive; 0 means all.
        top_p: the mass the smallest surviving prefix must reach; 1 or more means all.
        do_sample: False makes the row greedy.
    """

    temperature: float
    top_k: int
    top_p: float
    do_sample: bool = True

    @property
    def greedy(self) -> bool:
        """Whether the most probable code is always taken."""
        return not self.do_sample or self.temperature < GREEDY_BELOW

    def validated(self, prefix: str = "") -> FilterParameters:
        """Return self after checking every value.

        Args:
            prefix: stands before each field's name in an error, for example ``"subtalker_"``.

        Raises:
            UsageError: a value is negative, not finite or of the wrong type; the message names it.
        """
        if _not_finite(self.temperature) or self.temperature < 0:
            raise UsageError(f"{prefix}temperature must be a finite number of at least 0, not {self.temperature!r}")
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, int) or self.top_k < 0:
            raise UsageError(f"{prefix}top_k must be an integer of at least 0 (0 keeps all), not {self.top_k!r}")
        if _not_finite(self.top_p) or self.top_p <= 0:
            raise UsageError(f"{prefix}top_p must be a finite number above 0 (1 keeps all), not {self.top_p!r}")
        return self


def _not_finite(value: object) -> bool:
    return isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)


@dataclass(frozen=True, slots=True)
class FilterRows:
    """The filter parameters of R rows as arrays, a temperature of 0 standing for greedy.

    Attributes:
        temperature: float32 [R].
        top_k: int32 [R].
        top_p: float32 [R].
    """

    temperature: F32
    top_k: I32
    top_p: F32

    @classmethod
    def pack(cls, filters: Sequence[FilterParameters]) -> FilterRows:
        """Lay out validated parameters, one per row."""
        limit = np.iinfo(np.int32).max
        return cls(
            np.array([0.0 if each.greedy else each.temperature for each in filters], np.float32),
            np.array([min(each.top_k, limit) for each in filters], np.int32),
            np.array([each.top_p for each in filters], np.float32),
        )

    def take(self, rows: I64) -> FilterRows:
        """The parameters of the given rows (int64 [any])."""
        return FilterRows(self.temperature[rows], self.top_k[rows], self.top_p[rows])


def ragged_slots(counts: I64) -> tuple[I64, I64]:
    """Owner and offset of every slot of a flat ragged batch.

    Args:
        counts: int64 [A], slots of each sequence.

    Returns:
        (owner int64 [sum], offset int64 [sum]): slot i is slot ``offset[i]`` of sequence ``owner[i]``.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    begin = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) - begin[owner]


class Kernels(Protocol):
    """What drafting, verifying, accepting and the Talker's draw need from an implementation.

    Shapes: R rows, V vocabulary, H hidden, A sequences of a ragged batch. ``seeds`` are uint64, ``frames``
    uint32 and ``streams`` uint32 words of ``philox.stream``. Error flags are those of ``faults``; an
    implementation writes 0 where a row is sound.
    """

    def grouped_heads(self, hidden: F32, hidden_rows: I64, head_rows: I64, heads: F32, logits: F32) -> None:
        """``logits[r] = heads[head_rows[r]] @ hidden[hidden_rows[r]]``.

        Args:
            hidden: float32 [M, H].
            hidden_rows: int64 [R], rows of ``hidden``.
            head_rows: int64 [R], which head.
            heads: float32 [heads, V, H], contiguous.
            logits: float32 [R, V], written.
        """

    def filter(self, logits: F32, filters: FilterRows, probabilities: F32, errors: I32) -> None:
        """Temperature, top-k, top-p, then renormalise; a greedy row becomes one-hot.

        Args:
            logits: float32 [R, V]; -inf is a legal mask.
            filters: the parameters of each row.
            probabilities: float32 [R, V], written; zeros where the row is faulty.
            errors: int32 [R], written.
        """

    def argmax(self, logits: F32, codes: I64, errors: I32) -> None:
        """The most probable code of each row (lowest index among equals) into ``codes`` int64 [R]."""

    def draw(self, probabilities: F32, seeds: U64, streams: U32, frames: U32, codes: I64) -> None:
        """One categorical draw per row by Gumbel-max over the support, into ``codes`` int64 [R].

        Args:
            probabilities: float32 [R, V]; need not sum to 1, must have mass.
        """

    def accept_greedy(self, targets: I64, drafts: I64, counts: I64, accepted: I64, codes: I64) -> None:
        """Accept drafts while they equal the target's argmax.

        Args:
            targets: int64 [sum(counts + 1)], the argmax of every verified row.
            drafts: int64 [sum(counts)].
            counts: int64 [A], drafts of each sequence.
            accepted: int64 [A], written: how many drafts stand.
            codes: int64 [A], written: the code that follows them.
        """

    def accept_rejection(
        self,
        target: F32,
        draft: F32,
        drafts: I64,
        counts: I64,
        last: I64,
        seeds: U64,
        frames: U32,
        accepted: I64,
        codes: I64,
    ) -> None:
        """Rejection sampling of a draft chain (Leviathan et al., arXiv 2211.17192).

        Args:
            target: float32 [sum(counts + 1), V], p of every slot and of the bonus row.
            draft: float32 [sum(counts), V], q of every slot.
            drafts: int64 [sum(counts)], the proposed codes.
            counts: int64 [A], drafts of each sequence.
            last: int64 [A], index m of the last committed code.
            seeds: uint64 [A].
            frames: uint32 [A].
            accepted: int64 [A], written: how many drafts stand.
            codes: int64 [A], written: the residual or bonus code that follows them.
        """

    def draw_talker(
        self,
        logits: F32,
        seen: U8,
        penalty: F32,
        suppressed: U8,
        eos: int,
        ban_eos: U8,
        filters: FilterRows,
        seeds: U64,
        frames: U32,
        probabilities: F32,
        codes: I64,
        errors: I32,
    ) -> None:
        """Repetition penalty, suppression and EOS ban, then the filter, then the draw of c0.

        Args:
            logits: float32 [R, V], overwritten.
            seen: uint8 [R, V], 1 where the request has already produced the code.
            penalty: float32 [R], repetition penalty; 1 changes nothing.
            suppressed: uint8 [V], 1 where a code may never be drawn.
            eos: the end-of-sequence code.
            ban_eos: uint8 [R], 1 where the row may not end yet.
            filters: the parameters of each row.
            seeds: uint64 [R].
            frames: uint32 [R].
            probabilities: float32 [R, V], written.
            codes: int64 [R], written; -1 where the row is faulty.
            errors: int32 [R], written.
        """

    def sum_codec_embeddings(self, tables: Sequence[F32], codes: I64, feedback: F32) -> None:
        """The Talker's next input: ``feedback[b] = sum over g, in order, of tables[g][codes[b, g]]``.

        Args:
            tables: G tables float32 [codes, T], the Talker's own first.
            codes: int64 [B, G].
            feedback: float32 [B, T], written.
        """
