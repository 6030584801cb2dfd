"""The kernels over device memory: every operation is bound once and then enqueued without further arguments.

``NativeKernels`` checks its arrays at each call. Here the arrays of an operation never change, so what is returned is
a ``BoundOperation`` whose structures are filled already; ``enqueue`` is one C call, and may be captured in a graph.
Nothing can be raised for what an array holds: rows out of range count as absent, and faults are left in ``errors``
for the host to read with the codes.
"""

from __future__ import annotations

from ctypes import Structure, byref

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.devices.device import Device
from cpspec_trt.kernels import device_library
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
from cpspec_trt.kernels.device_library import StreamLibrary
from cpspec_trt.kernels.rules_protocol import AcceptanceRule


class BoundOperation:
    """One operation with all its arguments."""

    __slots__ = ("_arguments", "_device", "_library", "_name")

    def __init__(self, library: StreamLibrary, device: Device, name: str, arguments: tuple[object, ...]) -> None:
        self._library = library
        self._device = device
        self._name = name
        # A structure is passed by reference, and the reference keeps it alive.
        self._arguments = tuple(byref(each) if isinstance(each, Structure) else each for each in arguments)

    def enqueue(self) -> None:
        """Put it into the device's stream.

        Raises:
            UnsupportedError: the library does not do this.
            EngineError: the kernel could not be launched.
        """
        before = self._library.launches
        self._library.call(self._name, *self._arguments, stream=self._device.stream)
        self._device.count_kernels(self._library.launches - before)


class DeviceKernels:
    """Binds operations to the arrays of one device; ``kernels.protocol.Kernels`` says what each does.

    Every method raises ``UsageError`` for an array of another dtype or shape.
    """

    def __init__(self, device: Device) -> None:
        """Open the library.

        Raises:
            EngineError: it is not there or does not fit; says how to build it.
        """
        self._device = device
        self._library = device_library.open_device_library()

    @property
    def implementation(self) -> str:
        """What runs."""
        return self._library.implementation

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
        tolerance: float = 0.0,
        margins: DeviceArray | None = None,
    ) -> BoundOperation:
        """``RuleKernels.accept_commit``. The tolerance becomes part of a graph that captures this.

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
            None if margins is None else located("margins", margins, FLOAT32, (target.shape[0],)),
            tolerance,
            located("accepted", accepted, INT64, (sequences,)),
            located("commits", commits, INT64, (batch,)),
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

    def _bound(self, name: str, *arguments: object) -> BoundOperation:
        return BoundOperation(self._library, self._device, name, arguments)
