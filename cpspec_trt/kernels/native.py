"""``RuleKernels`` over a compiled library with host pointers: the CPU library, or CUDA kernels emulated on a CPU.

Acceptance and what belongs to it are in ``native_rules``, the rest is here. A call checks its arrays, writes their
addresses into structures that are kept, and calls. Nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref

import numpy as np

from cpspec_trt.kernels.arrays import (
    FLOAT32,
    INT32,
    INT64,
    UINT8,
    UINT32,
    UINT64,
    address,
    checked,
    checked_floats,
    optional,
)
from cpspec_trt.kernels.native_library import NativeLibrary
from cpspec_trt.kernels.native_rules import NativeRules, raise_without_mass
from cpspec_trt.kernels.native_structs import BoundTables
from cpspec_trt.kernels.protocol import F32, I32, I64, U8, U32, U64, FilterRows, Logits, Rows


class NativeKernels(NativeRules):
    """The operations of ``RuleKernels``; see the protocols for shapes. Not for use by two threads at once.

    Beside the errors of the protocol, every operation raises ``UsageError`` for an array of the wrong dtype, shape
    or layout and for an id out of range, and ``UnsupportedError`` where the library does not take the vocabulary.

    Attributes:
        library: the library.
    """

    def __init__(self, library: NativeLibrary) -> None:
        super().__init__(library)
        self._caches = BoundTables()
        self._workspace = np.empty(0, np.uint8)
        self._workspace_fits = (0, 0)
        self._arrivals = np.zeros(0, np.uint32)

    # ---- logits to codes

    def filter(self, logits: Logits, filters: FilterRows, probabilities: F32, errors: I32) -> None:
        """See ``Kernels.filter``."""
        rows, vocabulary = logits.shape
        source, dtype = checked_floats("logits", logits, (rows, vocabulary))
        self.library.call(
            "filter",
            source,
            dtype,
            rows,
            vocabulary,
            self._arguments.filters(filters, rows),
            checked("probabilities", probabilities, FLOAT32, (rows, vocabulary)),
            checked("errors", errors, INT32, (rows,)),
        )

    def argmax(self, logits: Logits, codes: I64, errors: I32, margins: F32 | None = None) -> None:
        """See ``RuleKernels.argmax``; the margin of a faulty row is 0."""
        rows, vocabulary = logits.shape
        source, dtype = checked_floats("logits", logits, (rows, vocabulary))
        self.library.call(
            "argmax",
            source,
            dtype,
            rows,
            vocabulary,
            checked("codes", codes, INT64, (rows,)),
            checked("errors", errors, INT32, (rows,)),
            optional("margins", margins, FLOAT32, (rows,)),
        )

    def draw(self, probabilities: F32, seeds: U64, streams: U32, frames: U32, codes: I64) -> None:
        """See ``Kernels.draw``."""
        rows, vocabulary = probabilities.shape
        self.library.call(
            "draw",
            checked("probabilities", probabilities, FLOAT32, (rows, vocabulary)),
            rows,
            vocabulary,
            self._arguments.noise(seeds, streams, frames, rows),
            checked("codes", codes, INT64, (rows,)),
        )
        raise_without_mass(codes)

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
        rows, vocabulary = logits.shape
        source, dtype = checked_floats("logits", logits, (rows, vocabulary))
        dense = optional("probabilities", probabilities, FLOAT32, (rows, vocabulary))
        if self._workspace_fits != (rows, vocabulary):
            self._workspace = np.empty(self.library.sample_workspace_bytes(rows, vocabulary), np.uint8)
            self._workspace_fits = (rows, vocabulary)
        self.library.call(
            "sample",
            source,
            dtype,
            rows,
            vocabulary,
            self._arguments.filters(filters, rows),
            self._arguments.noise(seeds, streams, frames, rows),
            dense,
            checked("codes", codes, INT64, (rows,)),
            checked("errors", errors, INT32, (rows,)),
            address(self._workspace),
            len(self._workspace),
        )

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
        """See ``Kernels.draw_talker``. The logits stay as they are."""
        rows, vocabulary = logits.shape
        source, dtype = checked_floats("logits", logits, (rows, vocabulary))
        self.library.call(
            "draw_talker",
            source,
            dtype,
            rows,
            vocabulary,
            checked("seen", seen, UINT8, (rows, vocabulary)),
            checked("penalty", penalty, FLOAT32, (rows,)),
            checked("suppressed", suppressed, UINT8, (vocabulary,)),
            eos,
            checked("ban_eos", ban_eos, UINT8, (rows,)),
            self._arguments.filters(filters, rows),
            checked("seeds", seeds, UINT64, (rows,)),
            checked("frames", frames, UINT32, (rows,)),
            checked("probabilities", probabilities, FLOAT32, (rows, vocabulary)),
            checked("codes", codes, INT64, (rows,)),
            checked("errors", errors, INT32, (rows,)),
        )

    # ---- a round

    def grouped_heads(self, hidden: Rows, hidden_rows: I64, head_rows: I64, heads: Rows, logits: F32) -> None:
        """See ``Kernels.grouped_heads``."""
        own, source = self._arguments.heads(hidden, hidden_rows, head_rows, heads)
        out = checked("logits", logits, FLOAT32, (len(hidden_rows), heads.shape[1]))
        self.library.call("grouped_heads", own, source, out)

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
        rows = len(hidden_rows)
        shape = (rows, heads.shape[1])
        self.library.call(
            "draft",
            *self._arguments.heads(hidden, hidden_rows, head_rows, heads),
            self._arguments.filters(filters, rows),
            self._arguments.noise(seeds, streams, frames, rows),
            checked("logits", logits, FLOAT32, shape),
            self._arrival_counters(rows),
            checked("probabilities", probabilities, FLOAT32, shape),
            checked("codes", codes, INT64, (rows,)),
            checked("errors", errors, INT32, (rows,)),
        )

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
        rows = len(hidden_rows)
        shape = (rows, heads.shape[1])
        self.library.call(
            "score",
            *self._arguments.heads(hidden, hidden_rows, head_rows, heads),
            self._arguments.filters(filters, rows),
            checked("logits", logits, FLOAT32, shape),
            self._arrival_counters(rows),
            checked("probabilities", probabilities, FLOAT32, shape),
            checked("errors", errors, INT32, (rows,)),
        )

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
        batch, positions = fed.shape
        bound = self._tables.bind(tables)
        self.library.call(
            "build_verify_input",
            self._arguments.state(codes, last),
            self._arguments.drafts(rows, counts, drafts),
            byref(bound),
            positions,
            checked("fed", fed, INT64, (len(codes), positions)),
            checked("embeddings", embeddings, tables[0].dtype, (batch, positions, bound.width)),
        )

    def copy_accepted_rows(self, caches: Sequence[Rows], rows: I64, counts: I64, first: I64, sources: I64) -> None:
        """See ``Kernels.copy_accepted_rows``."""
        sequences = len(rows)
        batch, heads, capacity, head_size = caches[0].shape
        bound = self._caches.bind(caches, caches[0].shape)
        self.library.call(
            "copy_accepted_rows",
            bound.tables,
            len(caches),
            bound.dtype,
            batch,
            heads,
            capacity,
            head_size,
            checked("rows", rows, INT64, (sequences,)),
            checked("counts", counts, INT64, (sequences,)),
            checked("first", first, INT64, (sequences,)),
            sequences,
            checked("sources", sources, INT64, (int(counts.sum()),)),
        )

    # ---- codec embeddings

    def gather_codec_embeddings(self, tables: Sequence[Rows], table_ids: I64, codes: I64, embeddings: Rows) -> None:
        """See ``Kernels.gather_codec_embeddings``."""
        rows = len(codes)
        bound = self._tables.bind(tables)
        self.library.call(
            "gather_codec_embeddings",
            byref(bound),
            checked("table_ids", table_ids, INT64, (rows,)),
            checked("codes", codes, INT64, (rows,)),
            rows,
            checked("embeddings", embeddings, tables[0].dtype, (rows, bound.width)),
        )

    def sum_codec_embeddings(self, tables: Sequence[Rows], codes: I64, feedback: F32) -> None:
        """See ``Kernels.sum_codec_embeddings``."""
        batch = len(codes)
        bound = self._tables.bind(tables)
        self.library.call(
            "sum_codec_embeddings",
            byref(bound),
            checked("codes", codes, INT64, (batch, len(tables))),
            batch,
            checked("feedback", feedback, FLOAT32, (batch, bound.width)),
        )

    def _arrival_counters(self, rows: int) -> int:
        if len(self._arrivals) < rows:
            self._arrivals = np.zeros(rows, np.uint32)
        return address(self._arrivals)
