"""What the Talker is fed before it has spoken: its prompt, and the text row that joins each frame."""

from __future__ import annotations

import numpy as np

from cpspec_trt.files.sidecars import TalkerTables
from cpspec_trt.text.layout import NO_CODEC, PromptLayout


class TalkerRows:
    """Makes rows of a prompt's ids, with the Talker's tables."""

    def __init__(self, tables: TalkerTables, tts_pad_token_id: int) -> None:
        self._tables = tables
        self._pad = tts_pad_token_id

    def prompt(self, layout: PromptLayout) -> np.ndarray:
        """The prefill rows, float32 [P, hidden]: text rows, plus the codec embedding where there is one."""
        rows = self._text_rows(layout.text_ids)
        with_code = layout.codec_ids != NO_CODEC
        rows[with_code] += self._tables.codec_embedding[layout.codec_ids[with_code]]
        return rows

    def feed(self, layout: PromptLayout) -> np.ndarray:
        """The text row that joins each frame, float32 [N + 1, hidden]: the trailing ones, then that of tts_pad."""
        return self._text_rows(np.append(layout.trailing, self._pad))

    def _text_rows(self, ids: np.ndarray) -> np.ndarray:
        """Text embedding and projection: linear, SiLU, linear."""
        tables = self._tables
        inner = np.asarray(tables.text_embedding[ids], np.float32) @ tables.fc1_weight.T + tables.fc1_bias
        activated = inner / (1.0 + np.exp(-inner))
        return np.asarray(activated @ tables.fc2_weight.T + tables.fc2_bias, np.float32)
