"""The start of a frame on a device, as one graph: positions 0 and 1 of the CodePredictor, and c1."""

from __future__ import annotations

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.devices.packed import Contents
from cpspec_trt.errors import EngineError
from cpspec_trt.kernels.device_arrays import DeviceDrafts, DeviceHeadRows
from cpspec_trt.kernels.device_operations import BoundOperation
from cpspec_trt.stages.device_code_predictor import PREFILL_ROWS, DeviceCodePredictor
from cpspec_trt.stages.device_plans import (
    FILTERS,
    INT64,
    RowParameters,
    captured,
    filter_contents,
    filters_of,
    head_contents,
    noise_contents,
    sequence_contents,
)


class FrameStart:
    """Begins a frame in every row of the batch. c0 and the Talker's row are read on the device, where they were made.

    Attributes:
        planned: its pass.
    """

    def __init__(self, predictor: DeviceCodePredictor, talker_hidden: DeviceArray, first_codes: DeviceArray) -> None:
        """Capture it.

        Args:
            predictor: the CodePredictor.
            talker_hidden: [batch, T], the Talker's rows that gave c0.
            first_codes: int64 [batch], c0.

        Raises:
            EngineError: the Talker's rows are of another dtype than the CodePredictor takes.
        """
        batch = predictor.batch
        plan: Contents = {
            **head_contents("target", batch),
            **filter_contents("target", batch),
            **sequence_contents(batch),
            **noise_contents(batch),
        }
        self.planned = predictor.planned_pass(PREFILL_ROWS, plan)
        self._predictor, self._hidden, self._codes = predictor, talker_hidden, first_codes
        embeds = self.planned.embeds
        if embeds.dtype != talker_hidden.dtype:
            raise EngineError(
                f"the Talker's hidden rows are {talker_hidden.dtype}, the CodePredictor takes {embeds.dtype}; "
                "build both with the same --precision"
            )
        host, rows = self.planned.plan.host, np.arange(batch)
        for row in range(batch):
            self.planned.place(row, 0)
        host["rows"][:] = rows
        host["target_hidden"][:] = host["first_hidden"][:] = rows * PREFILL_ROWS + 1
        self._embedding = predictor.device.array((batch, embeds.shape[2]), embeds.dtype)
        self._gather = predictor.kernels.gather_codec_embeddings(
            predictor.tables, predictor.device.array((batch,), INT64), first_codes, self._embedding
        )
        self._score, self._commit = self._bound()
        self._graph = captured(predictor.device, self._enqueue)

    def launch(self, parameters: RowParameters) -> None:
        """Put it into the stream; the stream must not need its last plan any more."""
        host = self.planned.plan.host
        for name in FILTERS:
            host[f"target_{name}"][:] = getattr(parameters, name)
        host["seeds"][:], host["frames"][:] = parameters.seeds, parameters.frames
        self._graph.launch()

    def _bound(self) -> tuple[BoundOperation, BoundOperation]:
        predictor, hidden = self._predictor, self.planned.hidden
        on, out = self.planned.plan.device, predictor.results.device
        shape = (predictor.batch, predictor.codebook)
        target = predictor.target.leading(*shape)
        score = predictor.kernels.score(
            predictor.heads,
            DeviceHeadRows(hidden, on["target_hidden"], on["target_heads"]),
            filters_of(on, "target"),
            predictor.target_logits.leading(*shape),
            target,
            out["first_errors"],
        )
        commit = predictor.kernels.accept_commit(
            target,
            predictor.draft.leading(0, predictor.codebook),
            DeviceDrafts(on["rows"], on["counts"], predictor.drafts.leading(0)),
            on["seeds"],
            on["frames"],
            hidden,
            on["first_hidden"],
            predictor.state,
            out["accepted"],
            out["commits"],
        )
        return score, commit

    def _enqueue(self) -> None:
        predictor, device = self._predictor, self._predictor.device
        self.planned.plan.upload()
        device.copy_into_column(predictor.state.codes, 0, self._codes)
        device.clear(predictor.state.last)
        self._gather.enqueue()
        device.copy_into_column(self.planned.embeds, 0, self._hidden)
        device.copy_into_column(self.planned.embeds, 1, self._embedding)
        self.planned.bound.run()
        self._score.enqueue()
        self._commit.enqueue()
