"""What Talker and Thinker share: prompt rows, then one row per step, over a KV cache that grows with the sequence."""

from __future__ import annotations

import numpy as np

from cpspec_trt.engines.engine import Engine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.files.manifest import ProfileName
from cpspec_trt.stages.decoder_pass import DecoderPass, KeyValueCache, RopeTable

_FIRST_CAPACITY = 128


def prompt_too_long(component: str, rows: int, most: int) -> EngineError:
    """What to say of a prompt that an engine does not take."""
    return EngineError(
        f"{component} engine: the prompt has {rows} rows, its context profile takes {most}; "
        f"shorten the text or rebuild with cpspec-build --maxInputLen {rows}"
    )


def cache_is_full(component: str, capacity: int) -> EngineError:
    """What to say of a sequence that outgrows its cache."""
    return EngineError(
        f"{component} engine: the KV cache is full ({capacity} positions); ask for less "
        f"or rebuild with cpspec-build --maxKVCacheCapacity {2 * capacity}"
    )


class SequenceStage:
    """Owns one decoder engine and its cache.

    Attributes:
        logits: float32 [batch, vocab], of the last real row of each sequence.
        lengths: int64 [batch], positions fed so far.
        max_prompt: rows of the longest prompt.
        max_length: positions of the longest sequence.
    """

    def __init__(self, engine: Engine, dimensions: DecoderDimensions, batch: int) -> None:
        self._engine = engine
        self._component = engine.manifest.component
        self._width = dimensions.hidden_size
        self._batch = batch
        self.max_prompt = engine.manifest.max_new_positions("context")
        self.max_length = engine.manifest.max_kv_capacity
        self.logits = np.empty((batch, dimensions.vocab_size), np.float32)
        self.lengths = np.zeros(batch, np.int64)
        self._rope = RopeTable(dimensions, self.max_length)
        self._last_row = np.zeros((batch, 1), np.int64)
        self._dimensions = dimensions
        self._cache = self._fresh_cache()
        self._step: DecoderPass | None = None

    def start(self, prompts: list[np.ndarray]) -> None:
        """Forget the previous sequences and run the prompts (one float32 [rows, hidden] per sequence).

        The cache is a new one: a step's cost must not follow an earlier, longer request, and a NaN that
        one left behind would spread through masked rows.

        Raises:
            EngineError: a prompt is longer than the engine's context profile.
        """
        longest = max(len(prompt) for prompt in prompts)
        if longest > self.max_prompt:
            raise prompt_too_long(self._component, longest, self.max_prompt)
        self._cache, self._step = self._fresh_cache(), None
        self._reserve(longest)
        embeds = np.zeros((self._batch, longest, self._width), np.float32)
        for row, prompt in enumerate(prompts):
            embeds[row, : len(prompt)] = prompt
            self.lengths[row] = len(prompt)
        self._last_row[:, 0] = self.lengths - 1
        positions = np.broadcast_to(np.arange(longest), (self._batch, longest))
        self._bind("context", embeds).run(positions)

    def step(self, inputs: np.ndarray) -> None:
        """Feed one row per sequence (float32 [batch, hidden]).

        Raises:
            EngineError: the KV cache is full.
        """
        self._reserve(int(self.lengths.max()) + 1)
        if self._step is None:
            self._step = self._bind("generation", np.empty((self._batch, 1, self._width), np.float32))
        self._last_row.fill(0)
        self._step.inputs_embeds[:, 0] = inputs
        self._step.run(self.lengths[:, None])
        self.lengths += 1

    def _outputs(self, rows: int) -> dict[str, np.ndarray]:
        """Arrays for the outputs of a pass of that many rows, by name."""
        return {"logits": self.logits}

    def _fresh_cache(self) -> KeyValueCache:
        return KeyValueCache(self._dimensions, self._batch, min(_FIRST_CAPACITY, self.max_length))

    def _reserve(self, rows: int) -> None:
        """Make room for ``rows`` positions: the capacity doubles, so a step's cost follows the tokens so far."""
        if rows > self.max_length:
            raise cache_is_full(self._component, self.max_length)
        capacity = self._cache.capacity
        if rows <= capacity:
            return
        while capacity < rows:
            capacity = min(2 * capacity, self.max_length)
        self._cache = self._cache.grown(capacity)
        self._step = None

    def _bind(self, profile: ProfileName, embeds: np.ndarray) -> DecoderPass:
        extra = {"last_row": self._last_row, **self._outputs(embeds.shape[1])}
        return DecoderPass(self._engine, profile, self._cache, self._rope, embeds, extra)
