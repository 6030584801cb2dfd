"""Acceptance over device memory: the guard, chains, trees, and the commit of a round; see ``kernels.device``."""

from __future__ import annotations

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.kernels.arrays import FLOAT32, INT32, INT64, UINT32, UINT64
from cpspec_trt.kernels.device_arrays import (
    DeviceCaches,
    DeviceDrafts,
    DeviceFrameState,
    DeviceNoise,
    DeviceTables,
    DeviceTrees,
    float_code,
    located,
)
from cpspec_trt.kernels.device_operations import BoundOperation, DeviceOperations
from cpspec_trt.kernels.rules_protocol import AcceptanceRule


class DeviceRules(DeviceOperations):
    """The part of ``DeviceKernels`` that accepts."""

    def margins(
        self, logits: DeviceArray, codes: DeviceArray, errors: DeviceArray, margins: DeviceArray
    ) -> BoundOperation:
        """``RuleKernels.argmax`` of logits [R, V], for its margins float32 [R]."""
        rows, vocabulary = logits.shape
        return self._bound(
            "argmax",
            located("logits", logits, logits.dtype, (rows, vocabulary)),
            float_code("logits", logits),
            rows,
            vocabulary,
            located("codes", codes, INT64, (rows,)),
            located("errors", errors, INT32, (rows,)),
            located("margins", margins, FLOAT32, (rows,)),
        )

    def accept_commit(
        self,
        target: DeviceArray,
        draft: DeviceArray,
        drafts: DeviceDrafts,
        seeds: DeviceArray,
        frames: DeviceArray,
        hidden: DeviceArray,
        first_hidden: DeviceArray,
        state: DeviceFrameState,
        accepted: DeviceArray,
        commits: DeviceArray,
        rule: AcceptanceRule = AcceptanceRule.REJECTION,
        tolerances: DeviceArray | None = None,
        margins: DeviceArray | None = None,
    ) -> BoundOperation:
        """``RuleKernels.accept_commit``; tolerances float32 [A], None guards nothing.

        Target float32 [verified rows, V], draft float32 [drafts, V], hidden [M, H], margins float32 [verified rows].
        """
        sequences, vocabulary = drafts.rows.shape[0], target.shape[1]
        count, batch = hidden.shape[0], state.codes.shape[0]
        return self._bound(
            "accept_commit",
            located("target", target, FLOAT32, target.shape),
            located("draft", draft, FLOAT32, (drafts.codes.shape[0], vocabulary)),
            vocabulary,
            drafts.struct(),
            located("seeds", seeds, UINT64, (sequences,)),
            located("frames", frames, UINT32, (sequences,)),
            located("hidden", hidden, state.context.dtype, (count, state.context.shape[1])),
            count,
            located("first_hidden", first_hidden, INT64, (sequences,)),
            state.struct(),
            int(rule),
            _optional("margins", margins, (target.shape[0],)),
            _optional("tolerances", tolerances, (sequences,)),
            located("accepted", accepted, INT64, (sequences,)),
            located("commits", commits, INT64, (batch,)),
        )

    def draw_candidates(
        self, probabilities: DeviceArray, widths: DeviceArray, noise: DeviceNoise, candidates: DeviceArray
    ) -> BoundOperation:
        """``RuleKernels.draw_candidates`` of probabilities float32 [R, V] into candidates int64 [R, K]."""
        (rows, vocabulary), most = probabilities.shape, candidates.shape[1]
        return self._bound(
            "draw_candidates",
            located("probabilities", probabilities, FLOAT32, (rows, vocabulary)),
            rows,
            vocabulary,
            located("widths", widths, INT64, (rows,)),
            most,
            noise.struct(rows),
            located("candidates", candidates, INT64, (rows, most)),
        )

    def build_tree_input(
        self, state: DeviceFrameState, trees: DeviceTrees, tables: DeviceTables, embeddings: DeviceArray
    ) -> BoundOperation:
        """``NativeKernels.build_tree_input`` into ``embeddings`` [B, S, T] of the tables' dtype."""
        batch, positions, _ = embeddings.shape
        return self._bound(
            "build_tree_input",
            state.struct(),
            trees.struct(),
            tables.struct(),
            positions,
            None,
            located("embeddings", embeddings, tables.dtype, (batch, positions, tables.width)),
        )

    def accept_commit_tree(
        self,
        target: DeviceArray,
        trees: DeviceTrees,
        seeds: DeviceArray,
        frames: DeviceArray,
        hidden: DeviceArray,
        first_hidden: DeviceArray,
        state: DeviceFrameState,
        first: DeviceArray,
        accepted: DeviceArray,
        commits: DeviceArray,
        sources: DeviceArray,
        tolerances: DeviceArray | None = None,
        margins: DeviceArray | None = None,
    ) -> BoundOperation:
        """``RuleKernels.accept_commit_tree``; tolerances as for ``accept_commit``.

        Target float32 [nodes, V], hidden [M, H], margins float32 [nodes], sources int64 [A, D].
        """
        sequences, most = sources.shape
        (nodes, vocabulary), count, batch = target.shape, hidden.shape[0], state.codes.shape[0]
        return self._bound(
            "accept_commit_tree",
            located("target", target, FLOAT32, (nodes, vocabulary)),
            vocabulary,
            trees.struct(),
            located("seeds", seeds, UINT64, (sequences,)),
            located("frames", frames, UINT32, (sequences,)),
            located("hidden", hidden, state.context.dtype, (count, state.context.shape[1])),
            count,
            located("first_hidden", first_hidden, INT64, (sequences,)),
            state.struct(),
            _optional("margins", margins, (nodes,)),
            _optional("tolerances", tolerances, (sequences,)),
            located("first", first, INT64, (sequences,)),
            most,
            located("accepted", accepted, INT64, (sequences,)),
            located("commits", commits, INT64, (batch,)),
            located("sources", sources, INT64, (sequences, most)),
        )

    def copy_accepted_rows(
        self, caches: DeviceCaches, rows: DeviceArray, counts: DeviceArray, first: DeviceArray, sources: DeviceArray
    ) -> BoundOperation:
        """``Kernels.copy_accepted_rows``: rows, counts and first int64 [A], sources int64 of any shape, flat."""
        sequences = rows.shape[0]
        return self._bound(
            "copy_accepted_rows",
            caches.addresses.address,
            caches.addresses.shape[0],
            caches.float_code,
            *caches.shape,
            located("rows", rows, INT64, (sequences,)),
            located("counts", counts, INT64, (sequences,)),
            located("first", first, INT64, (sequences,)),
            sequences,
            located("sources", sources, INT64, sources.shape),
        )


def _optional(name: str, array: DeviceArray | None, shape: tuple[int, ...]) -> int | None:
    return None if array is None else located(name, array, FLOAT32, shape)
