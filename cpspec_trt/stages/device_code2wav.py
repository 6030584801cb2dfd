"""code2wav on a device: the state of a sequence stays there, and the samples of a chunk come back in one copy."""

from __future__ import annotations

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray, PinnedArray, dtype_named
from cpspec_trt.devices.packed import DeviceBlock
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.files.engine_config import AnyCode2WavConfig
from cpspec_trt.stages.code2wav import SampleCounter
from cpspec_trt.stages.device_decoder import tensor_dtype
from cpspec_trt.stages.positions import rope_rows, sliding_mask

_STATE = "state_"


class DeviceCode2Wav:
    """Decodes consecutive chunks of one sequence, as ``Code2WavStage`` does.

    Attributes:
        sample_rate: Hz.
        max_chunk: frames of the longest pass.
    """

    def __init__(self, engine: TensorRTEngine, config: AnyCode2WavConfig, max_chunk: int) -> None:
        """Allocate everything for chunks of at most ``max_chunk`` frames.

        Raises:
            EngineError: there is no room on the device.
        """
        device, manifest = engine.device, engine.manifest
        self._engine, self._device, self._config = engine, device, config
        self.sample_rate = config.sample_rate
        self.max_chunk = min(max_chunk, manifest.profile("context").inputs["codes"].max[2])
        states = {
            info.name: ((1, *info.shape[1:]), dtype_named(info.dtype))
            for info in manifest.inputs
            if info.name.startswith(_STATE)
        }
        # A pass reads one set and writes the other; then they swap roles.
        self._states = [DeviceBlock(device, states) for _ in range(2)]
        self._samples = SampleCounter(config)
        frames, half = self.max_chunk, config.head_dim // 2
        keys = config.sliding_window - 1 + frames
        shapes = {
            "codes": (1, config.num_quantizers, frames),
            "attention_mask": (1, frames, keys),
            "rope_cos": (1, frames, half),
            "rope_sin": (1, frames, half),
            "waveform": (1, 1, frames * config.samples_per_frame),
        }
        self._arrays = {name: device.array(shape, tensor_dtype(manifest, name)) for name, shape in shapes.items()}
        self._waveform = device.pinned(shapes["waveform"], self._arrays["waveform"].dtype)

    def reset(self) -> None:
        """Start a new sequence."""
        self._samples.reset()
        self._device.clear(self._states[0].whole)

    def decode(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        """Decode the next frames of the sequence.

        Args:
            codes: integer [frames, groups].
            chunk: frames per pass (bounded by ``max_chunk``).

        Returns:
            float32 [samples], in -1 … 1.

        Raises:
            NumericError: the decoder produced a sample that is not finite.
        """
        step = min(chunk, self.max_chunk)
        parts = [self._run(codes[start : start + step]) for start in range(0, len(codes), step)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _run(self, codes: np.ndarray) -> np.ndarray:
        config, begin, frames = self._config, self._samples.frames, len(codes)
        cos, sin = rope_rows(np.arange(begin, begin + frames), config.head_dim, config.rope_theta)
        values = {
            "codes": codes.T[None],
            "attention_mask": sliding_mask(begin, frames, config.sliding_window)[None],
            "rope_cos": cos[None],
            "rope_sin": sin[None],
        }
        tensors = {name: self._arrays[name].leading(*array.shape) for name, array in values.items()}
        for name, array in values.items():
            self._device.write(tensors[name], array)
        waveform = self._arrays["waveform"].leading(1, 1, frames * config.samples_per_frame)
        self._engine.bind("context", {**tensors, "waveform": waveform, **self._state_tensors()}).run()
        self._states.reverse()
        part = PinnedArray(self._waveform.address, self._waveform.host[:, :, : waveform.shape[2]])
        self._device.download(part, waveform)
        self._device.synchronise()
        return self._samples.taken(part.host[0, 0], frames)

    def _state_tensors(self) -> dict[str, DeviceArray]:
        read, written = self._states
        following = {f"next_{name}": array for name, array in written.arrays.items()}
        return {**read.arrays, **following}
