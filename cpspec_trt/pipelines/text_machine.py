"""What writes: the Thinker and its draws, in host memory or on a device, one sequence at a time."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from cpspec_trt.engines.loading import AnyEngine
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.kernels.device import DeviceKernels
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.pipelines.times import LLM_GENERATION, LLM_PREFILL, StageTimes
from cpspec_trt.sampling.thinker import ThinkerSampler
from cpspec_trt.stages.device_thinker import DeviceThinker
from cpspec_trt.stages.thinker import ThinkerStage


class TextMachine(Protocol):
    """Writes one answer at a time: ``begin``, then ``token`` and ``advance`` in turn."""

    def begin(self, prompt_ids: np.ndarray, filters: FilterParameters, seed: int) -> None:
        """Feed a prompt (integer [n]).

        Raises:
            EngineError: it is longer than the engine takes, or the engine failed.
        """

    def token(self, index: int) -> int:
        """The token of a position of the answer.

        Raises:
            RowNumericError: nothing can be drawn; ``frame`` counts tokens there.
        """

    def advance(self, index: int) -> None:
        """Feed the token of position ``index``.

        Raises:
            EngineError: the KV cache is full.
        """

    def take_times(self) -> StageTimes:
        """Time spent per stage since this was last asked."""


class HostTextMachine:
    """A ``TextMachine`` over ONNX Runtime and the CPU kernels."""

    def __init__(self, stage: ThinkerStage) -> None:
        self._stage = stage
        self._kernels = default_kernels()
        self._times = StageTimes()
        self._sampler: ThinkerSampler
        self._token = np.empty(1, np.int64)

    def begin(self, prompt_ids: np.ndarray, filters: FilterParameters, seed: int) -> None:
        """See ``TextMachine.begin``."""
        self._sampler = ThinkerSampler(self._kernels, filters, seed)
        with self._times.measure(LLM_PREFILL):
            self._stage.start_ids([prompt_ids])

    def token(self, index: int) -> int:
        """See ``TextMachine.token``."""
        self._token[0] = self._sampler.draw(self._stage.logits, index)
        return int(self._token[0])

    def advance(self, index: int) -> None:
        """See ``TextMachine.advance``."""
        with self._times.measure(LLM_GENERATION):
            self._stage.step_ids(self._token)

    def take_times(self) -> StageTimes:
        """See ``TextMachine.take_times``."""
        taken, self._times = self._times, StageTimes()
        return taken


class DeviceTextMachine:
    """A ``TextMachine`` over a TensorRT engine: a token is one graph and one wait.

    Times run from what puts a pass into the stream until its token is read, the draw included.
    """

    def __init__(self, stage: DeviceThinker) -> None:
        self._stage = stage
        self._times = StageTimes()
        self._began = 0.0

    def begin(self, prompt_ids: np.ndarray, filters: FilterParameters, seed: int) -> None:
        """See ``TextMachine.begin``."""
        self._began = time.perf_counter()
        self._stage.begin(prompt_ids, filters, seed)

    def token(self, index: int) -> int:
        """See ``TextMachine.token``."""
        token = self._stage.token()
        self._times.add(LLM_GENERATION if index else LLM_PREFILL, time.perf_counter() - self._began)
        return token

    def advance(self, index: int) -> None:
        """See ``TextMachine.advance``."""
        self._began = time.perf_counter()
        self._stage.advance(index + 1)

    def take_times(self) -> StageTimes:
        """See ``TextMachine.take_times``."""
        taken, self._times = self._times, StageTimes()
        return taken


def open_text_machine(engine: AnyEngine, dimensions: DecoderDimensions, embedding: np.ndarray) -> TextMachine:
    """The machine for a Thinker's engine.

    Args:
        engine: the Thinker.
        dimensions: of its decoder.
        embedding: float32 [vocab, hidden], may be a memory map.

    Raises:
        EngineError: the kernels are missing, or there is no room on the device.
    """
    if isinstance(engine, TensorRTEngine):
        return DeviceTextMachine(DeviceThinker(engine, dimensions, DeviceKernels(engine.device), embedding))
    return HostTextMachine(ThinkerStage(engine, dimensions, embedding))
