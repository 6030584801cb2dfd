"""Acceptance of drafts over a compiled library: every rule, trees, the guard, and the commit of a round."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref

import numpy as np

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.arrays import FLOAT32, INT64, UINT32, UINT64, address, checked, optional
from cpspec_trt.kernels.draws import WITHOUT_MASS
from cpspec_trt.kernels.native_library import NativeLibrary
from cpspec_trt.kernels.native_structs import Arguments, BoundTables
from cpspec_trt.kernels.protocol import F32, I64, U32, U64, Rows
from cpspec_trt.kernels.rules_protocol import AcceptanceRule, Tolerance


class NativeRules:
    """The part of ``RuleKernels`` that accepts; see ``NativeKernels``.

    Attributes:
        library: the library.
    """

    def __init__(self, library: NativeLibrary) -> None:
        self.library = library
        self._arguments = Arguments()
        self._tables = BoundTables()
        self._tolerances = np.empty(0, np.float32)

    # ---- chains

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
        sequences = len(counts)
        verified = len(drafts) + sequences
        self.library.call(
            "accept_greedy",
            checked("targets", targets, INT64, (verified,)),
            self._arguments.drafts(None, counts, drafts),
            optional("margins", margins, FLOAT32, (verified,)),
            self._tolerances_of(tolerance, sequences),
            checked("accepted", accepted, INT64, (sequences,)),
            checked("codes", codes, INT64, (sequences,)),
        )

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
        self._accept("accept_rejection", target, draft, drafts, counts, last, seeds, frames, accepted, codes)

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
        self._accept("accept_block", target, draft, drafts, counts, last, seeds, frames, accepted, codes)

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
        sequences, vocabulary = len(counts), target.shape[1]
        self.library.call(
            "accept_coupled",
            checked("target", target, FLOAT32, (len(drafts) + sequences, vocabulary)),
            vocabulary,
            self._arguments.drafts(None, counts, drafts),
            *_standing(last, seeds, frames, sequences),
            self._tolerances_of(tolerance, sequences),
            checked("accepted", accepted, INT64, (sequences,)),
            checked("codes", codes, INT64, (sequences,)),
        )
        raise_without_mass(codes)

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
        sequences, vocabulary = len(counts), target.shape[1]
        verified = len(drafts) + sequences
        self.library.call(
            "accept_commit",
            checked("target", target, FLOAT32, (verified, vocabulary)),
            checked("draft", draft, FLOAT32, (len(drafts), vocabulary)),
            vocabulary,
            self._arguments.drafts(rows, counts, drafts),
            checked("seeds", seeds, UINT64, (sequences,)),
            checked("frames", frames, UINT32, (sequences,)),
            checked("hidden", hidden, context.dtype, (len(hidden), context.shape[1])),
            len(hidden),
            checked("first_hidden", first_hidden, INT64, (sequences,)),
            self._arguments.state(codes, last, context),
            rule,
            optional("margins", margins, FLOAT32, (verified,)),
            self._tolerances_of(tolerance, sequences),
            checked("accepted", accepted, INT64, (sequences,)),
            checked("commits", commits, INT64, (len(codes),)),
        )
        raise_without_mass(accepted)

    # ---- trees

    def draw_candidates(
        self, probabilities: F32, widths: I64, seeds: U64, streams: U32, frames: U32, candidates: I64
    ) -> None:
        """See ``RuleKernels.draw_candidates``."""
        (rows, vocabulary), most = probabilities.shape, candidates.shape[1]
        self.library.call(
            "draw_candidates",
            checked("probabilities", probabilities, FLOAT32, (rows, vocabulary)),
            rows,
            vocabulary,
            checked("widths", widths, INT64, (rows,)),
            most,
            self._arguments.noise(seeds, streams, frames, rows),
            checked("candidates", candidates, INT64, (rows, most)),
        )
        raise_without_mass(candidates[:, 0])

    def build_tree_input(
        self,
        tables: Sequence[Rows],
        codes: I64,
        last: I64,
        rows: I64,
        parents: I64,
        node_codes: I64,
        nodes: I64,
        fed: I64,
        embeddings: Rows,
        places: I64 | None = None,
    ) -> None:
        """What a verify pass of trees is fed: every node's code, from the table of the node's depth.

        Args:
            tables: one table [codes, T] per RVQ depth, the Talker's own first.
            codes: int64 [B, G], committed codes.
            last: int64 [B].
            rows: int64 [A], the row of the batch in which each sequence stands.
            parents: int64 [sum(nodes)], as for ``accept_tree``.
            node_codes: int64 [sum(nodes)], as for ``accept_tree``; -1 where a node does not exist.
            nodes: int64 [A].
            fed: int64 [B, S], written: node j's code at j; 0 where there is no node.
            embeddings: [B, S, T] in the tables' dtype, written: their embeddings; zeros there.
            places: int64 [sum(nodes)], as for ``accept_tree``.
        """
        batch, positions = fed.shape
        bound = self._tables.bind(tables)
        self.library.call(
            "build_tree_input",
            self._arguments.state(codes, last),
            self._arguments.trees(rows, nodes, parents, node_codes, places),
            byref(bound),
            positions,
            checked("fed", fed, INT64, (len(codes), positions)),
            checked("embeddings", embeddings, tables[0].dtype, (batch, positions, bound.width)),
        )

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
        sequences, total, vocabulary, most = len(nodes), len(parents), target.shape[1], path.shape[1]
        self.library.call(
            "accept_tree",
            checked("target", target, FLOAT32, (total, vocabulary)),
            vocabulary,
            self._arguments.trees(None, nodes, parents, node_codes, places),
            *_standing(last, seeds, frames, sequences),
            optional("margins", margins, FLOAT32, (total,)),
            self._tolerances_of(tolerance, sequences),
            most,
            checked("path", path, INT64, (sequences, most)),
            checked("path_lengths", path_lengths, INT64, (sequences,)),
            checked("codes", codes, INT64, (sequences, most)),
        )
        raise_without_mass(codes[range(sequences), path_lengths - 1])

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
        sequences, total, (_, vocabulary), most = len(nodes), len(parents), target.shape, sources.shape[1]
        self.library.call(
            "accept_commit_tree",
            checked("target", target, FLOAT32, (total, vocabulary)),
            vocabulary,
            self._arguments.trees(rows, nodes, parents, node_codes, places),
            checked("seeds", seeds, UINT64, (sequences,)),
            checked("frames", frames, UINT32, (sequences,)),
            checked("hidden", hidden, context.dtype, (len(hidden), context.shape[1])),
            len(hidden),
            checked("first_hidden", first_hidden, INT64, (sequences,)),
            self._arguments.state(codes, last, context),
            optional("margins", margins, FLOAT32, (total,)),
            self._tolerances_of(tolerance, sequences),
            checked("first", first, INT64, (sequences,)),
            most,
            checked("accepted", accepted, INT64, (sequences,)),
            checked("commits", commits, INT64, (len(codes),)),
            checked("sources", sources, INT64, (sequences, most)),
        )
        raise_without_mass(accepted)

    def _tolerances_of(self, tolerance: Tolerance, sequences: int) -> int | None:
        """The address of one tolerance per sequence; None where none guards."""
        if isinstance(tolerance, np.ndarray):
            return checked("tolerance", tolerance, FLOAT32, (sequences,))
        if tolerance == 0.0:
            return None
        if len(self._tolerances) < sequences:
            self._tolerances = np.empty(sequences, np.float32)
        self._tolerances[:sequences] = tolerance
        return address(self._tolerances)

    def _accept(
        self,
        operation: str,
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
        sequences, vocabulary = len(counts), target.shape[1]
        self.library.call(
            operation,
            checked("target", target, FLOAT32, (len(drafts) + sequences, vocabulary)),
            checked("draft", draft, FLOAT32, (len(drafts), vocabulary)),
            vocabulary,
            self._arguments.drafts(None, counts, drafts),
            *_standing(last, seeds, frames, sequences),
            checked("accepted", accepted, INT64, (sequences,)),
            checked("codes", codes, INT64, (sequences,)),
        )
        raise_without_mass(codes)


def raise_without_mass(codes: I64) -> None:
    """Raise where a code is -1.

    Raises:
        NumericError: one is.
    """
    if -1 in codes.tolist():
        raise NumericError(WITHOUT_MASS)


def _standing(last: I64, seeds: U64, frames: U32, sequences: int) -> tuple[int, int, int]:
    return (
        checked("last", last, INT64, (sequences,)),
        checked("seeds", seeds, UINT64, (sequences,)),
        checked("frames", frames, UINT32, (sequences,)),
    )
