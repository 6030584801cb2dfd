"""The Talker stage: prompt rows in, then one step per frame over a KV cache that grows with the tokens so far."""

from __future__ import annotations

import numpy as np

from cpspec_trt.engines.engine import Engine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import TalkerConfig
from cpspec_trt.files.manifest import ProfileName
from cpspec_trt.files.sidecars import TalkerTables
from cpspec_trt.stages.decoder_pass import DecoderPass, KeyValueCache, RopeTable

NO_CODE = -1
_FIRST_CAPACITY = 128


class TalkerStage:
    """Produces the logits of c0 and the hidden row the CodePredictor starts from.

    Attributes:
        logits: float32 [batch, vocab], of the last real row of each sequence.
        hidden: float32 [batch, hidden], the same rows after the final norm.
        lengths: int64 [batch], positions fed so far.
    """

    def __init__(self, engine: Engine, config: TalkerConfig, tables: TalkerTables, batch: int = 1) -> None:
        self._engine = engine
        self._config = config
        self._tables = tables
        self._batch = batch
        decoder = config.decoder
        self.max_prompt = engine.manifest.profile("context").inputs["inputs_embeds"].max[1]
        self.max_length = engine.manifest.profile("generation").inputs["past_key_0"].max[2]
        self.logits = np.empty((batch, decoder.vocab_size), np.float32)
        self.hidden = np.empty((batch, decoder.hidden_size), np.float32)
        self.lengths = np.zeros(batch, np.int64)
        self._rope = RopeTable(decoder, self.max_length)
        self._last_row = np.zeros((batch, 1), np.int64)
        self._cache = KeyValueCache(decoder, batch, min(_FIRST_CAPACITY, self.max_length))
        self._step: DecoderPass | None = None

    def text_rows(self, ids: np.ndarray) -> np.ndarray:
        """Text embedding and projection: linear, SiLU, linear.

        Args:
            ids: integer [n], text token ids.

        Returns:
            float32 [n, hidden].
        """
        tables = self._tables
        inner = np.asarray(tables.text_embedding[ids], np.float32) @ tables.fc1_weight.T + tables.fc1_bias
        activated = inner / (1.0 + np.exp(-inner))
        return np.asarray(activated @ tables.fc2_weight.T + tables.fc2_bias, np.float32)

    def prompt_rows(self, text_ids: np.ndarray, codec_ids: np.ndarray) -> np.ndarray:
        """Prefill rows: the projected text row plus the codec embedding where ``codec_ids`` is not -1.

        Args:
            text_ids: integer [n].
            codec_ids: integer [n].

        Returns:
            float32 [n, hidden].
        """
        rows = self.text_rows(text_ids)
        with_code = codec_ids != NO_CODE
        rows[with_code] += self._tables.codec_embedding[codec_ids[with_code]]
        return rows

    def start(self, prompts: list[np.ndarray]) -> None:
        """Forget the previous sequences and run the prompts (one float32 [rows, hidden] per sequence).

        Raises:
            EngineError: a prompt is longer than the engine's context profile.
        """
        longest = max(len(prompt) for prompt in prompts)
        self._check_prompt(longest)
        self._reserve(longest)
        embeds = np.zeros((self._batch, longest, self._config.decoder.hidden_size), np.float32)
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
            shape = (self._batch, 1, self._config.decoder.hidden_size)
            self._step = self._bind("generation", np.empty(shape, np.float32))
        self._last_row.fill(0)
        self._step.inputs_embeds[:, 0] = inputs
        self._step.run(self.lengths[:, None])
        self.lengths += 1

    def _check_prompt(self, rows: int) -> None:
        if rows > self.max_prompt:
            raise EngineError(
                f"talker engine: the prompt has {rows} rows, its context profile takes {self.max_prompt}; "
                f"shorten the text or rebuild with cpspec-build --maxInputLen {rows}"
            )

    def _reserve(self, rows: int) -> None:
        """Make room for ``rows`` positions: the capacity doubles, so a step's cost follows the tokens so far."""
        if rows > self.max_length:
            raise EngineError(
                f"talker engine: the KV cache is full ({self.max_length} positions); lower max_audio_length "
                f"or rebuild with cpspec-build --maxKVCacheCapacity {2 * self.max_length}"
            )
        capacity = self._cache.capacity
        if rows <= capacity:
            return
        while capacity < rows:
            capacity = min(2 * capacity, self.max_length)
        self._cache = self._cache.grown(capacity)
        self._step = None

    def _bind(self, profile: ProfileName, embeds: np.ndarray) -> DecoderPass:
        extra: dict[str, np.ndarray] = {"last_row": self._last_row, "logits": self.logits, "hidden_states": self.hidden}
        return DecoderPass(self._engine, profile, self._cache, self._rope, embeds, extra)
