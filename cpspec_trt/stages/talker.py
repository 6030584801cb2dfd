"""The Talker stage: the logits of c0, and the hidden row the CodePredictor starts from."""

from __future__ import annotations

import numpy as np

from cpspec_trt.engines.engine import Engine
from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.stages.sequence import SequenceStage


class TalkerStage(SequenceStage):
    """A ``SequenceStage`` that gives the Talker's hidden row too.

    Attributes:
        hidden: float32 [batch, hidden], the last real row of each sequence after the final norm.
    """

    def __init__(self, engine: Engine, dimensions: DecoderDimensions, batch: int = 1) -> None:
        super().__init__(engine, dimensions, batch)
        self.hidden = np.empty((batch, dimensions.hidden_size), np.float32)

    def _outputs(self, rows: int) -> dict[str, np.ndarray]:
        return {**super()._outputs(rows), "hidden_states": self.hidden}
