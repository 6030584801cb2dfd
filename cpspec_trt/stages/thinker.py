"""The Thinker stage: token ids in, the logits of the next token out."""

from __future__ import annotations

import numpy as np

from cpspec_trt.engines.engine import Engine
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.stages.sequence import SequenceStage


class ThinkerStage(SequenceStage):
    """A ``SequenceStage`` that looks its rows up in the Thinker's embedding table.

    The engine also gives the hidden rows of ``accept_hidden_layer``, which the Talker needs where a
    prompt holds audio or images. Prompts are text here, so the rows are computed and not kept.
    """

    def __init__(self, engine: Engine, dimensions: DecoderDimensions, embedding: np.ndarray, batch: int = 1) -> None:
        """Open the stage.

        Args:
            engine: the Thinker's engine.
            dimensions: of its decoder.
            embedding: float32 [vocab, hidden], may be a memory map.
            batch: sequences run together.
        """
        super().__init__(engine, dimensions, batch)
        self._embedding = embedding

    def start_ids(self, prompts: list[np.ndarray]) -> None:
        """As ``start``, for token ids (integer [n] per sequence)."""
        self.start([np.asarray(self._embedding[ids], np.float32) for ids in prompts])

    def step_ids(self, ids: np.ndarray) -> None:
        """As ``step``, for one token id per sequence (integer [batch])."""
        self.step(np.asarray(self._embedding[ids], np.float32))

    def _outputs(self, rows: int) -> dict[str, np.ndarray]:
        return {**super()._outputs(rows), "accept_hidden": np.empty((self._batch, rows, self._width), np.float32)}
