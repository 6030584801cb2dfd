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
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cpspec_trt.errors import UsageError

F32 = NDArray[np.float32]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Logits = NDArray[Any]  # float32, float16 or ml_dtypes.bfloat16
Rows = NDArray[Any]  # the same; weights, embeddings, hidden rows

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
    implementation writes 0 where a row is sound. ``Logits`` may be float32, float16 or bfloat16; the arithmetic is
    float32.
    """

    def grouped_heads(self, hidden: Rows, hidden_rows: I64, head_rows: I64, heads: Rows, logits: F32) -> None:
        """``logits[r] = heads[head_rows[r]] @ hidden[hidden_rows[r]]``.

        Args:
            hidden: [M, H].
            hidden_rows: int64 [R], rows of ``hidden``.
            head_rows: int64 [R], which head.
            heads: [heads, V, H], contiguous.
            logits: float32 [R, V], written.
        """

    def filter(self, logits: Logits, filters: FilterRows, probabilities: F32, errors: I32) -> None:
        """Temperature, top-k, top-p, then renormalise; a greedy row becomes one-hot.

        Args:
            logits: [R, V]; -inf is a legal mask.
            filters: the parameters of each row.
            probabilities: float32 [R, V], written; zeros where the row is faulty.
            errors: int32 [R], written.
        """

    def argmax(self, logits: Logits, codes: I64, errors: I32) -> None:
        """The most probable code of each row (lowest index among equals) into ``codes`` int64 [R], -1 if faulty."""

    def draw(self, probabilities: F32, seeds: U64, streams: U32, frames: U32, codes: I64) -> None:
        """One categorical draw per row by Gumbel-max over the support, into ``codes`` int64 [R].

        Args:
            probabilities: float32 [R, V]; need not sum to 1, must have mass.

        Raises:
            NumericError: a row has no mass.
        """

    def sample(
        self,
        logits: Logits,
        filters: FilterRows,
        seeds: U64,
        streams: U32,
        frames: U32,
        probabilities: F32 | None,
        codes: I64,
        errors: I32,
    ) -> None:
        """``filter`` and ``draw`` over any vocabulary, for the Thinker.

        Args:
            logits: [R, V].
            filters: the parameters of each row.
            seeds: uint64 [R].
            streams: uint32 [R].
            frames: uint32 [R].
            probabilities: float32 [R, V], written; None where they are not wanted.
            codes: int64 [R], written; -1 where the row is faulty.
            errors: int32 [R], written.
        """

    def draft(
        self,
        hidden: Rows,
        hidden_rows: I64,
        head_rows: I64,
        heads: Rows,
        filters: FilterRows,
        seeds: U64,
        streams: U32,
        frames: U32,
        logits: F32,
        probabilities: F32,
        codes: I64,
        errors: I32,
    ) -> None:
        """``grouped_heads``, ``filter`` and ``draw`` of every slot in one go; parameters as there.

        Args:
            codes: int64 [R], written; -1 where the row is faulty.
        """

    def score(
        self,
        hidden: Rows,
        hidden_rows: I64,
        head_rows: I64,
        heads: Rows,
        filters: FilterRows,
        logits: F32,
        probabilities: F32,
        errors: I32,
    ) -> None:
        """``grouped_heads`` and ``filter`` of every verified row in one go; parameters as there."""

    def build_verify_input(
        self,
        tables: Sequence[Rows],
        codes: I64,
        last: I64,
        rows: I64,
        counts: I64,
        drafts: I64,
        fed: I64,
        embeddings: Rows,
    ) -> None:
        """What a verify pass is fed: each row's last committed code, then its drafts, each from its depth's table.

        Args:
            tables: one table [codes, T] per RVQ depth, the Talker's own first.
            codes: int64 [B, G], committed codes.
            last: int64 [B], index m of the last committed code.
            rows: int64 [A], the row of the batch in which each sequence stands.
            counts: int64 [A], drafts of each sequence.
            drafts: int64 [sum(counts)].
            fed: int64 [B, S], written: the codes; 0 beyond a sequence's drafts and in rows without one.
            embeddings: [B, S, T] in the tables' dtype, written: their embeddings; zeros there.
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

        Raises:
            NumericError: the row that decides has no mass.
        """

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
    ) -> None:
        """``accept_rejection``, then commit into the state of the frame.

        Args:
            target: float32 [sum(counts + 1), V].
            draft: float32 [sum(counts), V].
            drafts: int64 [sum(counts)].
            rows: int64 [A], the row of the batch in which each sequence stands.
            counts: int64 [A].
            seeds: uint64 [A].
            frames: uint32 [A].
            hidden: [M, H], rows of the verify pass.
            first_hidden: int64 [A], verified row t of a sequence is ``hidden[first_hidden + t]``.
            codes: int64 [B, G], the drafts that stand and the code after them are written behind ``last``.
            last: int64 [B], grows by what was committed.
            context: [B, H] in the dtype of ``hidden``, becomes the hidden row whose head produced the last code.
            accepted: int64 [A], written: how many drafts stand.
            commits: int64 [B], written: codes committed, 0 in rows without a sequence.

        Raises:
            NumericError: the row that decides has no mass. The state of its sequence is as it was.
        """

    def copy_accepted_rows(self, caches: Sequence[Rows], rows: I64, counts: I64, first: I64, sources: I64) -> None:
        """Bring the KV rows of an accepted path together, in place.

        Slot ``sources[i]`` of a sequence's batch row is copied to slot ``first + i``; i counts the sequence's own
        sources, which ascend and never lie before their destination.

        Args:
            caches: arrays [B, heads, C, D] of one dtype.
            rows: int64 [A], the row of the batch in which each sequence stands.
            counts: int64 [A], sources of each sequence.
            first: int64 [A], its first destination.
            sources: int64 [sum(counts)]; -1 copies nothing.
        """

    def draw_talker(
        self,
        logits: Logits,
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
            logits: [R, V]; may be overwritten.
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

    def gather_codec_embeddings(self, tables: Sequence[Rows], table_ids: I64, codes: I64, embeddings: Rows) -> None:
        """``embeddings[r] = tables[table_ids[r]][codes[r]]``, int64 [R] both, in the tables' dtype [R, T]."""

    def sum_codec_embeddings(self, tables: Sequence[Rows], codes: I64, feedback: F32) -> None:
        """The Talker's next input: ``feedback[b] = sum over g, in order, of tables[g][codes[b, g]]``.

        Args:
            tables: G tables [codes, T], the Talker's own first.
            codes: int64 [B, G].
            feedback: float32 [B, T], written.
        """
