"""The kernels over device memory: every operation is bound once and then enqueued without further arguments.

``NativeKernels`` checks its arrays at each call. Here the arrays of an operation never change, so what is returned is
a ``BoundOperation`` whose structures are filled already; ``enqueue`` is one C call, and may be captured in a graph.
Nothing can be raised for what an array holds: rows out of range count as absent, and faults are left in ``errors``
for the host to read with the codes.
"""

from __future__ import annotations

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.kernels.arrays import FLOAT32, INT32, INT64, UINT8, UINT32, UINT64
from cpspec_trt.kernels.device_arrays import (
    DeviceDrafts,
    DeviceFilters,
    DeviceFrameState,
    DeviceHeadRows,
    DeviceNoise,
    DeviceTables,
    float_code,
    heads_struct,
    located,
)
from cpspec_trt.kernels.device_operations import BoundOperation
from cpspec_trt.kernels.device_rules import DeviceRules


class DeviceKernels(DeviceRules):
    """Binds operations to the arrays of one device; ``kernels.protocol.Kernels`` says what each does.

    Every method raises ``UsageError`` for an array of another dtype or shape.
    """

    def draft(
        self,
        heads: DeviceArray,
        rows: DeviceHeadRows,
        filters: DeviceFilters,
        noise: DeviceNoise,
        logits: DeviceArray,
        probabilities: DeviceArray,
        codes: DeviceArray,
        errors: DeviceArray,
    ) -> BoundOperation:
        """``Kernels.draft``: heads [any, V, H]; logits and probabilities float32 [R, V]; codes and errors [R]."""
        return self._bound(
            "draft",
            heads_struct(heads),
            rows.struct(heads.shape[2]),
            filters.struct(rows.count),
            noise.struct(rows.count),
            *self._rows_of(heads, rows, logits, probabilities),
            located("codes", codes, INT64, (rows.count,)),
            located("errors", errors, INT32, (rows.count,)),
        )

    def score(
        self,
        heads: DeviceArray,
        rows: DeviceHeadRows,
        filters: DeviceFilters,
        logits: DeviceArray,
        probabilities: DeviceArray,
        errors: DeviceArray,
    ) -> BoundOperation:
        """``Kernels.score``; arrays as for ``draft``."""
        return self._bound(
            "score",
            heads_struct(heads),
            rows.struct(heads.shape[2]),
            filters.struct(rows.count),
            *self._rows_of(heads, rows, logits, probabilities),
            located("errors", errors, INT32, (rows.count,)),
        )

    def build_verify_input(
        self, state: DeviceFrameState, drafts: DeviceDrafts, tables: DeviceTables, embeddings: DeviceArray
    ) -> BoundOperation:
        """``Kernels.build_verify_input`` into ``embeddings`` [B, S, T] of the tables' dtype."""
        batch, positions, _ = embeddings.shape
        return self._bound(
            "build_verify_input",
            state.struct(),
            drafts.struct(),
            tables.struct(),
            positions,
            None,
            located("embeddings", embeddings, tables.dtype, (batch, positions, tables.width)),
        )

    def draw_talker(
        self,
        logits: DeviceArray,
        seen: DeviceArray,
        penalty: DeviceArray,
        suppressed: DeviceArray,
        eos: int,
        ban_eos: DeviceArray,
        filters: DeviceFilters,
        seeds: DeviceArray,
        frames: DeviceArray,
        codes: DeviceArray,
        errors: DeviceArray,
    ) -> BoundOperation:
        """``Kernels.draw_talker`` of logits [R, V]."""
        rows, vocabulary = logits.shape
        return self._bound(
            "draw_talker",
            located("logits", logits, logits.dtype, (rows, vocabulary)),
            float_code("logits", logits),
            rows,
            vocabulary,
            located("seen", seen, UINT8, (rows, vocabulary)),
            located("penalty", penalty, FLOAT32, (rows,)),
            located("suppressed", suppressed, UINT8, (vocabulary,)),
            eos,
            located("ban_eos", ban_eos, UINT8, (rows,)),
            filters.struct(rows),
            located("seeds", seeds, UINT64, (rows,)),
            located("frames", frames, UINT32, (rows,)),
            self._device.array((rows, vocabulary), FLOAT32).address,
            located("codes", codes, INT64, (rows,)),
            located("errors", errors, INT32, (rows,)),
        )

    def sample(
        self, logits: DeviceArray, filters: DeviceFilters, noise: DeviceNoise, codes: DeviceArray, errors: DeviceArray
    ) -> BoundOperation:
        """``Kernels.sample`` of logits [R, V], without the probabilities."""
        rows, vocabulary = logits.shape
        size = self._library.sample_workspace_bytes(rows, vocabulary)
        return self._bound(
            "sample",
            located("logits", logits, logits.dtype, (rows, vocabulary)),
            float_code("logits", logits),
            rows,
            vocabulary,
            filters.struct(rows),
            noise.struct(rows),
            None,
            located("codes", codes, INT64, (rows,)),
            located("errors", errors, INT32, (rows,)),
            self._device.array((size,), UINT8).address,
            size,
        )

    def gather_codec_embeddings(
        self, tables: DeviceTables, table_ids: DeviceArray, codes: DeviceArray, embeddings: DeviceArray
    ) -> BoundOperation:
        """``Kernels.gather_codec_embeddings``: table_ids and codes int64 [R], embeddings [R, T]."""
        rows = codes.shape[0]
        return self._bound(
            "gather_codec_embeddings",
            tables.struct(),
            located("table_ids", table_ids, INT64, (rows,)),
            located("codes", codes, INT64, (rows,)),
            rows,
            located("embeddings", embeddings, tables.dtype, (rows, tables.width)),
        )

    def sum_codec_embeddings(self, tables: DeviceTables, codes: DeviceArray, feedback: DeviceArray) -> BoundOperation:
        """``Kernels.sum_codec_embeddings``: codes int64 [B, tables], feedback [B, T]."""
        batch = codes.shape[0]
        return self._bound(
            "sum_codec_embeddings",
            tables.struct(),
            located("codes", codes, INT64, (batch, tables.count)),
            batch,
            located("feedback", feedback, FLOAT32, (batch, tables.width)),
        )

    def _rows_of(
        self, heads: DeviceArray, rows: DeviceHeadRows, logits: DeviceArray, probabilities: DeviceArray
    ) -> tuple[int | None, int, int | None]:
        """Logits, arrival counters and probabilities. The library leaves zeros in the counters after every call."""
        shape = (rows.count, heads.shape[1])
        arrivals = self._device.array((rows.count,), UINT32)
        return (
            located("logits", logits, FLOAT32, shape),
            arrivals.address,
            located("probabilities", probabilities, FLOAT32, shape),
        )
