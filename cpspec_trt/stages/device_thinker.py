"""The Thinker on a device: a token is drawn there, and its embedding is the next input without a way to the host."""

from __future__ import annotations

import numpy as np

from cpspec_trt.devices.packed import Contents
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.kernels.device import DeviceKernels
from cpspec_trt.kernels.device_arrays import DeviceFilters, DeviceNoise, DeviceTables
from cpspec_trt.kernels.faults import RowNumericError
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from cpspec_trt.stages.device_decoder import INT64
from cpspec_trt.stages.device_sequence import DeviceSequence


class DeviceThinker(DeviceSequence):
    """A ``DeviceSequence`` of one row whose draws are tokens; the embedding table is resident."""

    def __init__(
        self, engine: TensorRTEngine, dimensions: DecoderDimensions, kernels: DeviceKernels, embedding: np.ndarray
    ) -> None:
        """Allocate everything and capture the step.

        Args:
            engine: the Thinker's engine.
            dimensions: of its decoder.
            kernels: of the engine's device.
            embedding: float32 [vocab, hidden], may be a memory map.
        """
        real, word = ((1,), np.dtype(np.float32)), ((1,), np.dtype(np.uint32))
        plan: Contents = {
            "temperature": real,
            "top_k": ((1,), np.dtype(np.int32)),
            "top_p": real,
            "seeds": ((1,), np.dtype(np.uint64)),
            "streams": word,
            "frames": word,
        }
        results: Contents = {"token": ((1,), INT64), "errors": ((1,), np.dtype(np.int32))}
        super().__init__(engine, dimensions, 1, plan, results)
        self._embedding = embedding
        self.plan.host["top_p"].fill(1)
        self.plan.host["streams"][:] = stream(Purpose.THINKER, np.zeros(1, np.int64))
        on, out = self.plan.device, self.results.device
        tables = DeviceTables(self._device, [self._device.uploaded(embedding, self.embeds.dtype)])
        table_ids = self._device.array((1,), INT64)
        embeds = self.embeds.leading(1, self._width)
        self._gather = kernels.gather_codec_embeddings(tables, table_ids, out["token"], embeds)
        filters = DeviceFilters(on["temperature"], on["top_k"], on["top_p"])
        noise = DeviceNoise(on["seeds"], on["streams"], on["frames"])
        self._draw = kernels.sample(self.outputs["logits"], filters, noise, out["token"], out["errors"])
        self.capture(self._gather.enqueue, self._draw.enqueue)

    def begin(self, prompt_ids: np.ndarray, filters: FilterParameters, seed: int) -> None:
        """Feed a prompt (integer [n]) and draw the first token.

        The stream must be idle: what it still reads of the plan is overwritten.

        Raises:
            EngineError: the prompt is longer than the engine takes.
        """
        host, packed = self.plan.host, FilterRows.pack([filters])
        host["temperature"][:], host["top_k"][:], host["top_p"][:] = packed.temperature, packed.top_k, packed.top_p
        host["seeds"][:] = seed
        host["frames"].fill(0)
        self.start(0, np.asarray(self._embedding[prompt_ids], np.float32))
        self.plan.upload()
        self._draw.enqueue()
        self.results.download()

    def advance(self, index: int) -> None:
        """Feed the token drawn last and draw the one of position ``index``.

        Raises:
            EngineError: the KV cache is full.
        """
        self.plan.host["frames"].fill(index)
        self.step()

    def token(self) -> int:
        """The token drawn last; waits for it.

        Raises:
            RowNumericError: nothing can be drawn; ``frame`` counts tokens there.
        """
        self._device.synchronise()
        flag = int(self.results.host["errors"][0])
        if flag:
            raise RowNumericError(0, int(self.plan.host["frames"][0]), 0, flag)
        return int(self.results.host["token"][0])
