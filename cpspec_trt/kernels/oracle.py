"""``RuleKernels`` in numpy, vectorised over rows: the readable definition that others are tested against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpspec_trt.kernels import draws, rules_oracle
from cpspec_trt.kernels.faults import SOUND
from cpspec_trt.kernels.filters import argmax_rows, filter_rows
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import F32, I32, I64, U8, U32, U64, FilterRows, Logits, Rows, ragged_slots
from cpspec_trt.kernels.rules_protocol import AcceptanceRule, Tolerance

_ALIGNMENT = 64


def aligned_empty(length: int) -> F32:
    """A float32 [length] buffer that starts on a 64-byte boundary."""
    spare = np.empty(4 * length + _ALIGNMENT, np.uint8)
    begin = -spare.ctypes.data % _ALIGNMENT
    return spare[begin : begin + 4 * length].view(np.float32)


class OracleKernels:
    """The operations of ``RuleKernels``; see the protocols for shapes. Not for use by two threads at once."""

    def __init__(self) -> None:
        self._row = aligned_empty(0)
        self._product = aligned_empty(0)

    def grouped_heads(self, hidden: Rows, hidden_rows: I64, head_rows: I64, heads: Rows, logits: F32) -> None:
        """One matrix-vector product per row, always from and into the same two aligned buffers.

        BLAS may sum in another order for another shape or alignment. Here both are always the same, so a row's
        logits are the same bits in the autoregressive loop, in a round, and in any batch.
        """
        _, vocabulary, width = heads.shape
        if len(self._row) != width or len(self._product) != vocabulary:
            self._row = aligned_empty(width)
            self._product = aligned_empty(vocabulary)
        for out, (source, head) in enumerate(zip(hidden_rows.tolist(), head_rows.tolist(), strict=True)):
            self._row[:] = hidden[source]
            np.dot(np.asarray(heads[head], np.float32), self._row, out=self._product)
            logits[out] = self._product

    def filter(self, logits: Logits, filters: FilterRows, probabilities: F32, errors: I32) -> None:
        """See ``Kernels.filter``."""
        filter_rows(logits, filters, probabilities, errors)

    def argmax(self, logits: Logits, codes: I64, errors: I32, margins: F32 | None = None) -> None:
        """See ``RuleKernels.argmax``."""
        argmax_rows(logits, codes, errors)
        if margins is not None:
            margins[:] = rules_oracle.top_gap(np.asarray(logits, np.float32))

    def draw(self, probabilities: F32, seeds: U64, streams: U32, frames: U32, codes: I64) -> None:
        """See ``Kernels.draw``."""
        draws.draw_rows(probabilities, seeds, streams, frames, codes)

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
        """See ``Kernels.sample``."""
        law = np.empty(logits.shape, np.float32) if probabilities is None else probabilities
        filter_rows(logits, filters, law, errors)
        codes[:] = -1
        sound = np.flatnonzero(errors == SOUND)
        drawn = np.empty(len(sound), np.int64)
        draws.draw_rows(law[sound], seeds[sound], streams[sound], frames[sound], drawn)
        codes[sound] = drawn

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
        """See ``Kernels.draft``."""
        self.grouped_heads(hidden, hidden_rows, head_rows, heads, logits)
        self.sample(logits, filters, seeds, streams, frames, probabilities, codes, errors)

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
        """See ``Kernels.score``."""
        self.grouped_heads(hidden, hidden_rows, head_rows, heads, logits)
        filter_rows(logits, filters, probabilities, errors)

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
        """See ``Kernels.build_verify_input``."""
        fed[:] = 0
        embeddings[:] = 0
        owner, offset = ragged_slots(counts)
        fed[rows, 0] = codes[rows, last[rows]]
        fed[rows[owner], 1 + offset] = drafts
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            for slot in range(count + 1):
                embeddings[row, slot] = tables[last[row] + slot][fed[row, slot]]

    def accept_greedy(
        self,
        targets: I64,
        drafts: I64,
        counts: I64,
        accepted: I64,
        codes: I64,
        margins: F32 | None = None,
        tolerance: Tolerance = 0.0,
    ) -> None:
        """See ``RuleKernels.accept_greedy``."""
        rules_oracle.accept_greedy(targets, drafts, counts, accepted, codes, margins, tolerance)

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
        """See ``Kernels.accept_rejection``."""
        draws.accept_rejection(target, draft, drafts, counts, last, seeds, frames, accepted, codes)

    def accept_block(
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
        """See ``RuleKernels.accept_block``."""
        rules_oracle.accept_block(target, draft, drafts, counts, last, seeds, frames, accepted, codes)

    def accept_coupled(
        self,
        target: F32,
        drafts: I64,
        counts: I64,
        last: I64,
        seeds: U64,
        frames: U32,
        accepted: I64,
        codes: I64,
        tolerance: Tolerance = 0.0,
    ) -> None:
        """See ``RuleKernels.accept_coupled``."""
        rules_oracle.accept_coupled(target, drafts, counts, last, seeds, frames, accepted, codes, tolerance)

    def draw_candidates(
        self, probabilities: F32, widths: I64, seeds: U64, streams: U32, frames: U32, candidates: I64
    ) -> None:
        """See ``RuleKernels.draw_candidates``."""
        rules_oracle.draw_candidates(probabilities, widths, seeds, streams, frames, candidates)

    def accept_tree(
        self,
        target: F32,
        parents: I64,
        node_codes: I64,
        nodes: I64,
        last: I64,
        seeds: U64,
        frames: U32,
        path: I64,
        path_lengths: I64,
        codes: I64,
        tolerance: Tolerance = 0.0,
        margins: F32 | None = None,
        places: I64 | None = None,
    ) -> None:
        """See ``RuleKernels.accept_tree``."""
        rules_oracle.accept_tree(
            target,
            parents,
            node_codes,
            nodes,
            last,
            seeds,
            frames,
            path,
            path_lengths,
            codes,
            tolerance,
            margins,
            places,
        )

    def accept_commit_tree(
        self,
        target: F32,
        rows: I64,
        parents: I64,
        node_codes: I64,
        nodes: I64,
        seeds: U64,
        frames: U32,
        hidden: Rows,
        first_hidden: I64,
        codes: I64,
        last: I64,
        context: Rows,
        first: I64,
        accepted: I64,
        commits: I64,
        sources: I64,
        tolerance: Tolerance = 0.0,
        margins: F32 | None = None,
        places: I64 | None = None,
    ) -> None:
        """See ``RuleKernels.accept_commit_tree``."""
        path, decided = np.empty((2, *sources.shape), np.int64)
        noise, lengths = (last[rows], seeds, frames), np.empty(len(rows), np.int64)
        trees = parents, node_codes, nodes
        self.accept_tree(target, *trees, *noise, path, lengths, decided, tolerance, margins, places)
        committed = lengths - (decided[np.arange(len(rows)), lengths - 1] < 0)
        rules_oracle.commit_tree(path, decided, committed, rows, hidden, first_hidden, codes, last, context)
        accepted[:] = lengths - 1
        commits[:] = 0
        commits[rows] = committed
        kept = np.arange(path.shape[1]) < committed[:, None]
        sources[:] = np.where(kept, first[:, None] + path, -1)

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
        """See ``RuleKernels.accept_commit``."""
        begun, following = last[rows], np.empty(len(counts), np.int64)
        if rule == AcceptanceRule.COUPLED:
            self.accept_coupled(target, drafts, counts, begun, seeds, frames, accepted, following, tolerance)
        else:
            accept = self.accept_block if rule == AcceptanceRule.BLOCK else self.accept_rejection
            accept(target, draft, drafts, counts, begun, seeds, frames, accepted, following)
        if margins is not None:
            rules_oracle.guard(margins, tolerance, counts, accepted, following)
        owner, offset = ragged_slots(counts)
        kept = offset < accepted[owner]
        kept_rows = rows[owner][kept]
        codes[kept_rows, last[kept_rows] + 1 + offset[kept]] = drafts[kept]
        decided = following >= 0
        committed = accepted + decided
        last[rows] += committed
        codes[rows[decided], last[rows[decided]]] = following[decided]
        moved = committed > 0
        context[rows[moved]] = hidden[(first_hidden + committed - 1)[moved]]
        commits[:] = 0
        commits[rows] = committed

    def copy_accepted_rows(self, caches: Sequence[Rows], rows: I64, counts: I64, first: I64, sources: I64) -> None:
        """See ``Kernels.copy_accepted_rows``."""
        moved = sources >= 0
        owner, offset = (slots[moved] for slots in ragged_slots(counts))
        for cache in caches:
            cache[rows[owner], :, first[owner] + offset] = cache[rows[owner], :, sources[moved]]

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
        """See ``Kernels.draw_talker``."""
        scores = np.asarray(logits, np.float32)
        rows, tokens = np.nonzero(seen)
        score = scores[rows, tokens]
        scores[rows, tokens] = np.where(score < 0, score * penalty[rows], score / penalty[rows])
        scores[:, suppressed != 0] = -np.inf
        scores[ban_eos != 0, eos] = -np.inf
        streams = stream(Purpose.TALKER, np.zeros(len(codes), np.int64))
        self.sample(scores, filters, seeds, streams, frames, probabilities, codes, errors)

    def gather_codec_embeddings(self, tables: Sequence[Rows], table_ids: I64, codes: I64, embeddings: Rows) -> None:
        """See ``Kernels.gather_codec_embeddings``."""
        for row, (table, code) in enumerate(zip(table_ids.tolist(), codes.tolist(), strict=True)):
            embeddings[row] = tables[table][code]

    def sum_codec_embeddings(self, tables: Sequence[Rows], codes: I64, feedback: F32) -> None:
        """See ``Kernels.sum_codec_embeddings``."""
        feedback[:] = tables[0][codes[:, 0]]
        for group in range(1, len(tables)):
            feedback += np.asarray(tables[group][codes[:, group]], np.float32)
