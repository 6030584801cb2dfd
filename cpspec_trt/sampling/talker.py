"""Drawing c0 of every frame: the Talker's processors with the state they need between frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpspec_trt.kernels.faults import raise_first
from cpspec_trt.kernels.protocol import FilterRows, Kernels
from cpspec_trt.sampling.effective import EffectiveSampling

CONTROL_CODES = 1024


def suppressed_codes(vocabulary: int, eos: int) -> np.ndarray:
    """uint8 [vocabulary], 1 for the control codes: the last 1024 ids except EOS, which are never drawn."""
    suppressed = np.zeros(vocabulary, np.uint8)
    suppressed[max(vocabulary - CONTROL_CODES, 0) :] = 1
    suppressed[eos] = 0
    return suppressed


class TalkerSampler:
    """Draws one code per sequence from the Talker's logits; buffers are bound once per batch.

    Order of the processors: repetition penalty over the distinct codes drawn so far, suppression of the
    control codes (the last 1024 ids except EOS), EOS ban for the first tokens, temperature, top-k, top-p.
    """

    def __init__(
        self, kernels: Kernels, vocabulary: int, eos: int, min_new_tokens: int, sampling: Sequence[EffectiveSampling]
    ) -> None:
        """Prepare for one request per row.

        Args:
            kernels: the operations.
            vocabulary: V, size of the Talker's logits.
            eos: id of the end-of-sequence code.
            min_new_tokens: tokens for which EOS is banned.
            sampling: effective values of each row's request.
        """
        rows = len(sampling)
        self._kernels = kernels
        self._eos = eos
        self._min_new_tokens = min_new_tokens
        self._suppressed = suppressed_codes(vocabulary, eos)
        self._seen = np.zeros((rows, vocabulary), np.uint8)
        self._penalty = np.array([each.repetition_penalty for each in sampling], np.float32)
        self._filters = FilterRows.pack([each.talker for each in sampling])
        self._seeds = np.array([each.seed for each in sampling], np.uint64)
        self._ban_eos = np.empty(rows, np.uint8)
        self._frames = np.empty(rows, np.uint32)
        self._logits = np.empty((rows, vocabulary), np.float32)
        self._probabilities = np.empty((rows, vocabulary), np.float32)
        self._errors = np.empty(rows, np.int32)
        self._codes = np.empty(rows, np.int64)

    def draw(self, logits: np.ndarray, frame: int) -> np.ndarray:
        """Draw c0 of a frame.

        Args:
            logits: float32 [rows, V]; left as they are.
            frame: index of the frame, the same for every row.

        Returns:
            int64 [rows], valid until the next draw.

        Raises:
            RowNumericError: nothing can be drawn from a row of logits.
        """
        self._logits[:] = logits
        self._frames.fill(frame)
        self._ban_eos.fill(frame < self._min_new_tokens)
        self._kernels.draw_talker(
            self._logits,
            self._seen,
            self._penalty,
            self._suppressed,
            self._eos,
            self._ban_eos,
            self._filters,
            self._seeds,
            self._frames,
            self._probabilities,
            self._codes,
            self._errors,
        )
        rows = np.arange(len(self._codes))
        raise_first(self._errors, rows, self._frames, np.zeros_like(rows))
        self._seen[rows, self._codes] = 1
        return self._codes
