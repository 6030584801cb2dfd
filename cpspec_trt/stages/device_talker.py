"""The Talker on a device: c0 is drawn there, and the next input is summed there from the frame's codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.devices.packed import Contents
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.kernels.device import DeviceKernels
from cpspec_trt.kernels.device_arrays import DeviceFilters, DeviceTables
from cpspec_trt.kernels.faults import raise_first
from cpspec_trt.kernels.protocol import FilterRows
from cpspec_trt.sampling.effective import EffectiveSampling
from cpspec_trt.sampling.talker import suppressed_codes
from cpspec_trt.stages.device_decoder import INT64
from cpspec_trt.stages.device_sequence import DeviceSequence


class DeviceTalker(DeviceSequence):
    """A ``DeviceSequence`` whose draws are c0 of a frame.

    The text rows of a request lie beside the codec embeddings as one more table, so that the kernel that sums a
    frame's embeddings adds the text row too: the last column of ``codes`` says which.
    """

    def __init__(
        self,
        engine: TensorRTEngine,
        dimensions: DecoderDimensions,
        kernels: DeviceKernels,
        embeddings: Sequence[DeviceArray],
        codes: DeviceArray,
        eos: int,
        min_new_tokens: int,
    ) -> None:
        """Allocate everything and capture the step.

        Args:
            engine: the Talker's engine.
            dimensions: of its decoder.
            kernels: of the engine's device.
            embeddings: G tables [codes, hidden], the Talker's own first, of one dtype.
            codes: int64 [batch, G + 1], the codes of each frame; the last column is written here.
            eos: id of the end-of-sequence code.
            min_new_tokens: tokens for which EOS is banned.

        Raises:
            EngineError: the engine does not take float32 rows, or there is no room on the device.
        """
        batch, vocabulary = codes.shape[0], dimensions.vocab_size
        single, real = ((batch,), INT64), ((batch,), np.dtype(np.float32))
        plan: Contents = {
            "seen": ((batch, vocabulary), np.dtype(np.uint8)),
            "penalty": real,
            "temperature": real,
            "top_k": ((batch,), np.dtype(np.int32)),
            "top_p": real,
            "seeds": ((batch,), np.dtype(np.uint64)),
            "frames": ((batch,), np.dtype(np.uint32)),
            "ban_eos": ((batch,), np.dtype(np.uint8)),
            "text_rows": single,
        }
        results: Contents = {"first": single, "errors": ((batch,), np.dtype(np.int32))}
        super().__init__(engine, dimensions, batch, plan, results)
        for name in ("penalty", "top_p"):
            self.plan.host[name].fill(1)
        if self.embeds.dtype != np.float32:
            raise EngineError(
                f"talker engine: its inputs_embeds is {self.embeds.dtype}, embeddings are summed in float32; "
                "rebuild the engine with the cpspec-build of this release"
            )
        self._codes, self._min_new_tokens = codes, min_new_tokens
        self._text = self._device.array((batch * self.max_length, self._width), embeddings[0].dtype)
        self._text_length = np.ones(batch, np.int64)
        tables = DeviceTables(self._device, [*embeddings, self._text])
        self._sum = kernels.sum_codec_embeddings(tables, codes, self.embeds.leading(batch, self._width))
        on = self.plan.device
        self._draw = kernels.draw_talker(
            self.outputs["logits"],
            on["seen"],
            on["penalty"],
            self._device.uploaded(suppressed_codes(vocabulary, eos)),
            eos,
            on["ban_eos"],
            DeviceFilters(on["temperature"], on["top_k"], on["top_p"]),
            on["seeds"],
            on["frames"],
            self.results.device["first"],
            self.results.device["errors"],
        )
        self.capture(self._feed_codes, self._draw.enqueue)

    @property
    def hidden(self) -> DeviceArray:
        """[batch, hidden], the last real row of each sequence after the final norm."""
        return self.outputs["hidden_states"]

    @property
    def first(self) -> DeviceArray:
        """int64 [batch], c0 as it was drawn last."""
        return self.results.device["first"]

    def begin(self, row: int, prompt: np.ndarray, text_rows: np.ndarray, sampling: EffectiveSampling) -> None:
        """Start a request in a row of the batch: feed its prompt and draw c0 of its first frame.

        The stream must be idle: what it still reads of the plan is overwritten.

        Args:
            row: of the batch.
            prompt: float32 [rows, hidden].
            text_rows: float32 [N, hidden], the row that joins each frame; the last one joins all later frames.
            sampling: effective values of the request.

        Raises:
            EngineError: the prompt is longer than the engine takes.
        """
        host, filters = self.plan.host, FilterRows.pack([sampling.talker])
        host["seen"][row] = 0
        host["penalty"][row] = sampling.repetition_penalty
        host["temperature"][row] = filters.temperature[0]
        host["top_k"][row], host["top_p"][row] = filters.top_k[0], filters.top_p[0]
        host["seeds"][row] = sampling.seed
        text_rows = text_rows[: self.max_length]  # no frame beyond can be spoken
        self._text_length[row] = len(text_rows)
        begin = row * self.max_length
        self._device.write(self._text.rows(begin, begin + len(text_rows)), text_rows)
        self._plan_frame(row, 0)
        self.start(row, prompt)
        self.plan.upload()
        self._draw.enqueue()
        self.results.download()

    def advance(self, frame: int) -> None:
        """Feed the finished frame and draw c0 of the next one, whose index is ``frame + 1``, in every row.

        Raises:
            EngineError: the KV cache is full.
        """
        host = self.plan.host
        for row in range(self._batch):
            at = min(frame, int(self._text_length[row]) - 1)
            host["text_rows"][row] = row * self.max_length + at
            self._plan_frame(row, frame + 1)
        self.step()

    def first_codes(self) -> np.ndarray:
        """c0 as it was drawn last, int64 [batch]; to be called after a wait. From now on the codes count as seen.

        Raises:
            RowNumericError: nothing can be drawn from a row of logits.
        """
        found, codes = self.results.host, self.results.host["first"]
        rows = np.arange(self._batch)
        raise_first(found["errors"], rows, self.plan.host["frames"], np.zeros_like(rows))
        self.plan.host["seen"][rows, codes] = 1
        return codes

    def _plan_frame(self, row: int, frame: int) -> None:
        self.plan.host["frames"][row] = frame
        self.plan.host["ban_eos"][row] = frame < self._min_new_tokens

    def _feed_codes(self) -> None:
        self._device.copy_into_column(self._codes, self._codes.shape[1] - 1, self.plan.device["text_rows"])
        self._sum.enqueue()
