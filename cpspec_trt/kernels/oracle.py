"""``Kernels`` in numpy, vectorised over rows: the readable definition that other implementations are tested against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpspec_trt.kernels import draws
from cpspec_trt.kernels.faults import SOUND
from cpspec_trt.kernels.filters import argmax_rows, filter_rows
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import F32, I32, I64, U8, U32, U64, FilterRows

_ALIGNMENT = 64


def aligned_empty(length: int) -> F32:
    """A float32 [length] buffer that starts on a 64-byte boundary."""
    spare = np.empty(4 * length + _ALIGNMENT, np.uint8)
    begin = -spare.ctypes.data % _ALIGNMENT
    return spare[begin : begin + 4 * length].view(np.float32)


class OracleKernels:
    """The operations of ``Kernels``; see the protocol for shapes. Not for use by two threads at once."""

    def __init__(self) -> None:
        self._row = aligned_empty(0)
        self._product = aligned_empty(0)

    def grouped_heads(self, hidden: F32, hidden_rows: I64, head_rows: I64, heads: F32, logits: F32) -> None:
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
            np.dot(heads[head], self._row, out=self._product)
            logits[out] = self._product

    def filter(self, logits: F32, filters: FilterRows, probabilities: F32, errors: I32) -> None:
        """See ``Kernels.filter``."""
        filter_rows(logits, filters, probabilities, errors)

    def argmax(self, logits: F32, codes: I64, errors: I32) -> None:
        """See ``Kernels.argmax``."""
        argmax_rows(logits, codes, errors)

    def draw(self, probabilities: F32, seeds: U64, streams: U32, frames: U32, codes: I64) -> None:
        """See ``Kernels.draw``."""
        draws.draw_rows(probabilities, seeds, streams, frames, codes)

    def accept_greedy(self, targets: I64, drafts: I64, counts: I64, accepted: I64, codes: I64) -> None:
        """See ``Kernels.accept_greedy``."""
        draws.accept_greedy(targets, drafts, counts, accepted, codes)

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
        """See ``Kernels.draw_talker``."""
        rows, tokens = np.nonzero(seen)
        score = logits[rows, tokens]
        logits[rows, tokens] = np.where(score < 0, score * penalty[rows], score / penalty[rows])
        logits[:, suppressed != 0] = -np.inf
        logits[ban_eos != 0, eos] = -np.inf
        filter_rows(logits, filters, probabilities, errors)
        codes[:] = -1
        sound = np.flatnonzero(errors == SOUND)
        drawn = np.empty(len(sound), np.int64)
        streams = stream(Purpose.TALKER, np.zeros(len(sound), np.int64))
        draws.draw_rows(probabilities[sound], seeds[sound], streams, frames[sound], drawn)
        codes[sound] = drawn

    def sum_codec_embeddings(self, tables: Sequence[F32], codes: I64, feedback: F32) -> None:
        """See ``Kernels.sum_codec_embeddings``."""
        feedback[:] = tables[0][codes[:, 0]]
        for group in range(1, len(tables)):
            feedback += tables[group][codes[:, group]]
