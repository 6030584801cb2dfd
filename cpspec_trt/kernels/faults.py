"""What can be wrong with a row of logits, as a flag an implementation sets and as an error a user reads."""

from __future__ import annotations

import numpy as np

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.protocol import I32, I64

SOUND = 0
NOT_FINITE = 1
ALL_MASKED = 2

_REASONS = {
    NOT_FINITE: "the logits hold NaN or +inf",
    ALL_MASKED: "every logit is -inf, so no code can be drawn",
}


class RowNumericError(NumericError):
    """A row of logits from which nothing can be drawn.

    Attributes:
        row: row of the batch.
        frame: frame of the request.
        depth: RVQ depth, 0 for the Talker's code.
        flag: one of the flags of this module.
    """

    def __init__(self, row: int, frame: int, depth: int, flag: int, request: str | None = None) -> None:
        self.row = row
        self.frame = frame
        self.depth = depth
        self.flag = flag
        owner = request if request is not None else f"batch row {row}"
        super().__init__(
            f"{owner}, frame {frame}, RVQ depth {depth}: {_REASONS[flag]}; "
            "check the checkpoint's weights, or rebuild the engines from it"
        )

    def of_request(self, request: str) -> RowNumericError:
        """The same error, naming the request instead of its row in the batch."""
        return RowNumericError(self.row, self.frame, self.depth, self.flag, request)


def raise_first(errors: I32, rows: I64, frames: np.ndarray, depths: I64) -> None:
    """Raise for the first flagged row.

    Args:
        errors: int32 [R], flags.
        rows: int64 [R], row of the batch each entry belongs to.
        frames: integer [R].
        depths: int64 [R].

    Raises:
        RowNumericError: a flag is not ``SOUND``.
    """
    if errors.any():
        first = int(np.flatnonzero(errors)[0])
        raise RowNumericError(int(rows[first]), int(frames[first]), int(depths[first]), int(errors[first]))
