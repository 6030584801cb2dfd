"""The code2wav stage: codes to samples, chunk by chunk, with all state carried over."""

from __future__ import annotations

import numpy as np

from cpspec_trt.engines.engine import BoundPass, Engine
from cpspec_trt.errors import NumericError
from cpspec_trt.files.engine_config import AnyCode2WavConfig, OmniCode2WavConfig
from cpspec_trt.stages.positions import rope_rows, sliding_mask

_STATE = "state_"


class SampleCounter:
    """Where a sequence stands, and which samples of a chunk are given out.

    Attributes:
        frames: decoded so far.
    """

    def __init__(self, config: AnyCode2WavConfig) -> None:
        self._per_frame = config.samples_per_frame
        self._absent = config.trimmed_samples if isinstance(config, OmniCode2WavConfig) else 0
        self.frames = 0

    def reset(self) -> None:
        """Start a new sequence."""
        self.frames = 0

    def taken(self, waveform: np.ndarray, frames: int) -> np.ndarray:
        """A copy of the samples that exist, of the next ``frames`` frames.

        Args:
            waveform: [frames * samples per frame], of any float type.
            frames: of the chunk.

        Returns:
            float32 [samples].

        Raises:
            NumericError: a sample is not finite; names its frame.
        """
        if not np.isfinite(waveform).all():
            bad = int(np.flatnonzero(~np.isfinite(waveform))[0])
            frame = self.frames + bad // self._per_frame
            raise NumericError(f"code2wav produced a sample that is not finite in frame {frame}")
        first = max(self._absent - self.frames * self._per_frame, 0)
        self.frames += frames
        return waveform[first:].astype(np.float32)


class Code2WavStage:
    """Decodes consecutive chunks of one sequence; every chunking gives the same samples.

    n frames of Qwen3-TTS give ``n * samples_per_frame`` samples. In Qwen3-Omni the first
    ``trimmed_samples`` of them do not exist, so the first chunk gives fewer.
    """

    def __init__(self, engine: Engine, config: AnyCode2WavConfig) -> None:
        self._engine = engine
        self._config = config
        self.samples_per_frame = config.samples_per_frame
        self.sample_rate = config.sample_rate
        self.max_chunk = engine.manifest.profile("context").inputs["codes"].max[2]
        shapes = {info.name: (1, *info.shape[1:]) for info in engine.manifest.inputs if info.name.startswith(_STATE)}
        self._states = [{name: np.zeros(shape, np.float32) for name, shape in shapes.items()} for _ in range(2)]
        self._samples = SampleCounter(config)
        self._chunks: dict[tuple[int, int], _Chunk] = {}

    def reset(self) -> None:
        """Start a new sequence."""
        self._samples.reset()
        for array in self._states[0].values():
            array.fill(0.0)

    def decode(self, codes: np.ndarray, chunk: int) -> np.ndarray:
        """Decode the next frames of the sequence.

        Args:
            codes: integer [frames, groups].
            chunk: frames per pass (bounded by the engine's profile).

        Returns:
            float32 [samples], in -1 … 1.

        Raises:
            NumericError: the decoder produced a sample that is not finite.
        """
        step = min(chunk, self.max_chunk)
        parts = [self._run(codes[start : start + step]) for start in range(0, len(codes), step)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _run(self, codes: np.ndarray) -> np.ndarray:
        begin, frames = self._samples.frames, len(codes)
        bound = self._bind(frames)
        bound.codes[0] = codes.T
        positions = np.arange(begin, begin + frames)
        cos, sin = rope_rows(positions, self._config.head_dim, self._config.rope_theta)
        bound.cos[0], bound.sin[0] = cos, sin
        bound.mask[0] = sliding_mask(begin, frames, self._config.sliding_window)
        bound.bound.run()
        self._states.reverse()
        return self._samples.taken(bound.waveform[0, 0], frames)

    def _bind(self, frames: int) -> _Chunk:
        """Buffers for a chunk length; the two sets of state swap roles after each pass, hence the parity in the key."""
        key = (frames, id(self._states[0]))
        if key not in self._chunks:
            if len(self._chunks) > 8:  # odd last chunks of many lengths must not pile up
                self._chunks.clear()
            self._chunks[key] = _Chunk(self._engine, self._config, frames, *self._states)
        return self._chunks[key]


class _Chunk:
    """Buffers of one chunk length bound to (state read, state written)."""

    def __init__(
        self,
        engine: Engine,
        config: AnyCode2WavConfig,
        frames: int,
        state: dict[str, np.ndarray],
        following: dict[str, np.ndarray],
    ) -> None:
        half, keys = config.head_dim // 2, config.sliding_window - 1 + frames
        self.codes = np.empty((1, config.num_quantizers, frames), np.int64)
        self.mask = np.empty((1, frames, keys), np.float32)
        self.cos = np.empty((1, frames, half), np.float32)
        self.sin = np.empty_like(self.cos)
        self.waveform = np.empty((1, 1, frames * config.samples_per_frame), np.float32)
        tensors: dict[str, np.ndarray] = {
            "codes": self.codes,
            "attention_mask": self.mask,
            "rope_cos": self.cos,
            "rope_sin": self.sin,
            "waveform": self.waveform,
            **state,
            **{f"next_{name}": array for name, array in following.items()},
        }
        self.bound: BoundPass = engine.bind("context", tensors)
