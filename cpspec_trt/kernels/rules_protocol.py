"""The operations of the acceptance rules beyond rejection: guard, block verification, coupling, trees.

The guard. Where a backend's pass of many rows may round otherwise than its pass of one row, a code that is decided by
a hair could come out differently with and without speculation. So a verified row whose two best candidates lie closer
than ``tolerance`` is *guarded*: it decides nothing, the drafts before it stand, its code is ``GUARDED``, and the
caller decides it from a pass of one row. Slots are examined in order, the guard before the match. A tolerance of 0
guards nothing; a caller passes 0 for a pass of one row. Sequences may have tolerances of their own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from cpspec_trt.kernels.protocol import F32, I32, I64, U32, U64, Kernels, Logits, Rows

GUARDED = -2  # stands for the code of a guarded row
Tolerance = float | F32  # of all sequences, or of each: float32 [A]


class AcceptanceRule(IntEnum):
    """How drafts of a sampled row are accepted; one-hot (greedy) rows are decided alike under each."""

    REJECTION = 0
    BLOCK = 1
    COUPLED = 2


class RuleKernels(Kernels, Protocol):
    """``Kernels`` with every acceptance rule; shapes and ragged layouts as there."""

    def argmax(self, logits: Logits, codes: I64, errors: I32, margins: F32 | None = None) -> None:
        """``Kernels.argmax``, and how far the best logit leads.

        Args:
            logits: [R, V].
            codes: int64 [R], written.
            errors: int32 [R], written.
            margins: float32 [R], written: the gap between the two best logits; +inf where only one is above -inf.
        """

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
        """``Kernels.accept_greedy`` under guard.

        Args:
            targets: int64 [sum(counts + 1)].
            drafts: int64 [sum(counts)].
            counts: int64 [A].
            accepted: int64 [A], written.
            codes: int64 [A], written; ``GUARDED`` where a row's margin is below the tolerance.
            margins: float32 [sum(counts + 1)], what ``argmax`` wrote; None where nothing is guarded.
            tolerance: of margins.
        """

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
        """Block verification (Sun et al., arXiv 2403.10444): drafts are accepted jointly; see ``rules_oracle``.

        Accept uniforms, residual and bonus noise are those of ``accept_rejection``; parameters and errors as there.
        """

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
        """Gumbel coupling (arXiv 2408.07978): a slot's code is the target's own draw, with the target's noise.

        What was drafted decides only how far the round goes, so the codes are those of the autoregressive loop.

        Args:
            target: float32 [sum(counts + 1), V].
            drafts: int64 [sum(counts)].
            counts: int64 [A].
            last: int64 [A].
            seeds: uint64 [A].
            frames: uint32 [A].
            accepted: int64 [A], written: how many drafts equal the target's draw.
            codes: int64 [A], written: the target's draw that follows them, or ``GUARDED``.
            tolerance: of the gap between the two best perturbed log-probabilities (+inf with one candidate).

        Raises:
            NumericError: a row that is reached has no mass.
        """

    def draw_candidates(
        self, probabilities: F32, widths: I64, seeds: U64, streams: U32, frames: U32, candidates: I64
    ) -> None:
        """The first of each row's race, best first; ``draw`` gives ``candidates[:, 0]``.

        Args:
            probabilities: float32 [R, V].
            widths: int64 [R], how many are wanted, 1 to K.
            seeds: uint64 [R].
            streams: uint32 [R].
            frames: uint32 [R].
            candidates: int64 [R, K], written: ties to the lower index; -1 beyond the width and beyond the support.

        Raises:
            NumericError: a row has no mass.
        """

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
        """``accept_coupled`` down a tree of drafts: go to the child that holds the target's draw, while there is one.

        A node stands for a code already fed; its row decides the code after it. Node 0 of a sequence is its root,
        the last committed code, and a node at depth d below it decides c_(last + 1 + d).

        Args:
            target: float32 [sum(nodes), V], p of every node.
            parents: int64 [sum(nodes)], the node's parent as an index within its sequence, smaller than its own; the
                root's is not read.
            node_codes: int64 [sum(nodes)], the code each node holds; siblings hold different ones. -1 is a child that
                does not exist, and the root's is not read.
            nodes: int64 [A], nodes of each sequence, at least 1.
            last: int64 [A].
            seeds: uint64 [A].
            frames: uint32 [A].
            path: int64 [A, D], written: visited nodes, the root first; -1 beyond them.
            path_lengths: int64 [A], written: how many were visited; one fewer drafts stand.
            codes: int64 [A, D], written: the code each visited node decided, the last may be ``GUARDED``; -1 beyond.
            tolerance: as for ``accept_coupled``.
            margins: float32 [sum(nodes)], as for ``accept_commit``.
            places: int64 [sum(nodes)] or None: node i holds ``node_codes[places[i]]`` then, and ``node_codes`` may have
                any length; a negative place is a child that does not exist.

        Raises:
            NumericError: a visited row has no mass.
        """

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
        """``accept_tree``, then commit as ``accept_commit`` does. Further parameters:

        Args:
            rows: int64 [A], the row of the batch in which each sequence stands.
            hidden: [M, H], rows of the verify pass; a sequence's follow one another, node by node.
            first_hidden: int64 [A], the root's.
            codes: int64 [B, G], committed codes, updated.
            last: int64 [B], updated.
            context: [B, H], updated: the row of the last node that decided a code.
            first: int64 [A], the KV slot of the root; node j lies j slots behind it.
            accepted: int64 [A], written: how many drafts stand.
            commits: int64 [B], written.
            sources: int64 [A, D], written: KV slots of the nodes that decided a code, for ``copy_accepted_rows``; -1
                beyond them. D bounds the path.
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
        rule: AcceptanceRule = AcceptanceRule.REJECTION,
        tolerance: Tolerance = 0.0,
        margins: F32 | None = None,
    ) -> None:
        """``Kernels.accept_commit`` under any rule. Further parameters:

        Args:
            rule: how drafts are accepted.
            tolerance: guards the perturbed gap under ``COUPLED``, and ``margins`` under every rule. A guarded
                sequence commits its ``accepted`` drafts alone; where that is none its state stays as it is.
            margins: float32 [sum(counts + 1)]: for greedy rows, the margin of their logits; +inf for the others.
        """
