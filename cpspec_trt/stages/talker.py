"""The Talker stage: the logits of c0, and the hidden row the CodePredictor starts from."""

from __future__ import annotations

import numpy as np

from cpspec_trt.engines.engine import Engine
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.files.sidecars import TalkerTables
from cpspec_trt.stages.sequence import SequenceStage
from cpspec_trt.text.layout import NO_CODEC


class TalkerStage(SequenceStage):
    """A ``SequenceStage`` with the Talker's tables.

    Attributes:
        hidden: float32 [batch, hidden], the last real row of each sequence after the final norm.
    """

    def __init__(self, engine: Engine, dimensions: DecoderDimensions, tables: TalkerTables, batch: int = 1) -> None:
        super().__init__(engine, dimensions, batch)
        self._tables = tables
        self.hidden = np.empty((batch, dimensions.hidden_size), np.float32)

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
        with_code = codec_ids != NO_CODEC
        rows[with_code] += self._tables.codec_embedding[codec_ids[with_code]]
        return rows

    def _outputs(self, rows: int) -> dict[str, np.ndarray]:
        return {**super()._outputs(rows), "hidden_states": self.hidden}
