"""Drawing the Thinker's next token."""

from __future__ import annotations

import numpy as np

from cpspec_trt.kernels.faults import RowNumericError
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows, Kernels


class ThinkerSampler:
    """Draws one token per step from the Thinker's logits; buffers are bound once."""

    def __init__(self, kernels: Kernels, filters: FilterParameters, seed: int) -> None:
        self._kernels = kernels
        self._filters = FilterRows.pack([filters])
        self._frames = np.empty(1, np.uint32)
        self._seeds = np.array([seed], np.uint64)
        self._stream = stream(Purpose.THINKER, np.zeros(1, np.int64))
        self._errors = np.empty(1, np.int32)
        self._token = np.empty(1, np.int64)

    def draw(self, logits: np.ndarray, index: int) -> int:
        """Draw the token of a position.

        Args:
            logits: float32 [1, V].
            index: how many tokens were drawn before.

        Raises:
            RowNumericError: nothing can be drawn; ``frame`` counts tokens there.
        """
        self._frames.fill(index)
        self._kernels.sample(
            logits, self._filters, self._seeds, self._stream, self._frames, None, self._token, self._errors
        )
        if self._errors[0]:
            raise RowNumericError(0, index, 0, int(self._errors[0]))
        return int(self._token[0])
