"""When a verified row decides: the margin guard of passes that may round otherwise than passes of one row."""

from __future__ import annotations

import numpy as np

from cpspec_trt.kernels.protocol import F32
from cpspec_trt.kernels.rules_protocol import RuleKernels
from cpspec_trt.speculation.slots import RowSampling, Slots


class Guard:
    """Tolerances and margins in the unit the kernels compare them in: gaps of log-probabilities.

    A gap of logits is divided by the temperature on its way to a log-probability. A batch has one tolerance, that of
    its coldest row that samples, which is the widest.
    """

    def __init__(self, kernels: RuleKernels, tolerance: float, max_rows: int) -> None:
        """Bind the buffers.

        Args:
            kernels: the operations.
            tolerance: gap of two logits below which a pass of several rows decides nothing; 0 guards nothing.
            max_rows: the most verified rows of a pass.
        """
        self._kernels = kernels
        self._tolerance = tolerance
        self._codes = np.empty(max_rows, np.int64)
        self._errors = np.empty(max_rows, np.int32)
        self._margins = np.empty(max_rows, np.float32)

    def check(self, logits: F32, slots: Slots, sampling: RowSampling, width: int) -> tuple[float, F32 | None]:
        """Tolerance of a pass, and the margins of its greedy rows (see ``RuleKernels.accept_commit``).

        Args:
            logits: float32 [R, V], of every verified row.
            slots: what each of them decides.
            sampling: parameters of the batch.
            width: rows per sequence; a pass of one is never guarded.
        """
        if width == 1 or not self._tolerance:
            return 0.0, None
        coldest = sampling.coldest
        greedy = sampling.greedy[slots.row]
        if not greedy.any():
            return self._tolerance / coldest, None
        rows = len(logits)
        margins = self._margins[:rows]
        self._kernels.argmax(logits, self._codes[:rows], self._errors[:rows], margins)
        margins /= np.float32(coldest)
        margins[~greedy] = np.inf
        return self._tolerance / coldest, margins
