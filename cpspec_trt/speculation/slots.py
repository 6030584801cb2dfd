"""What a round works on: the sampling parameters of a batch, and which code each of its slots decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpspec_trt.kernels.faults import raise_first
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import I32, I64, U32, U64, FilterParameters, FilterRows, ragged_slots


@dataclass(frozen=True, slots=True)
class RowSampling:
    """What decides the draws of each row of the batch.

    Attributes:
        filters: filter parameters, B rows.
        seeds: uint64 [B], effective seed of the request.
        frames: uint32 [B], frame of the request.
    """

    filters: FilterRows
    seeds: U64
    frames: U32

    @classmethod
    def pack(cls, filters: Sequence[FilterParameters], seeds: np.ndarray, frames: np.ndarray) -> RowSampling:
        """Lay out the parameters of a batch."""
        return cls(FilterRows.pack(filters), np.asarray(seeds, np.uint64), np.asarray(frames, np.uint32))

    @property
    def greedy(self) -> np.ndarray:
        """bool [B], rows that take the most probable code."""
        return np.asarray(self.filters.temperature == 0)

    @property
    def coldest(self) -> float:
        """The lowest temperature of the rows that sample; 1 where none does."""
        return float(np.min(self.filters.temperature, where=~self.greedy, initial=np.inf)) if self.any_sampled else 1.0

    @property
    def any_sampled(self) -> bool:
        """Whether a row samples."""
        return not self.greedy.all()


@dataclass(frozen=True, slots=True)
class Slots:
    """A flat ragged batch of codes to decide: slot i of a sequence decides c_(m+1+i).

    Attributes:
        row: int64 [R], row of the batch.
        last: int64 [R], index m of the sequence's last committed code.
        offset: int64 [R], i.
    """

    row: I64
    last: I64
    offset: I64

    @classmethod
    def spread(cls, rows: I64, last: I64, counts: I64) -> Slots:
        """``counts[a]`` slots for each sequence: batch row ``rows[a]``, last committed code ``last[a]`` (int64 [A])."""
        owner, offset = ragged_slots(counts)
        return cls(rows[owner], last[owner], offset)

    @property
    def depth(self) -> I64:
        """int64 [R], RVQ depth of the code each slot decides."""
        return self.last + 1 + self.offset

    @property
    def head(self) -> I64:
        """int64 [R], the head that predicts it."""
        return self.last + self.offset

    def streams(self, purpose: Purpose) -> U32:
        """uint32 [R], where the noise of each slot comes from."""
        return stream(purpose, self.depth, self.last)

    def raise_faults(self, errors: I32, sampling: RowSampling) -> None:
        """Raise for the first flagged slot (int32 [R]), naming row, frame and depth.

        Raises:
            RowNumericError: a flag is set.
        """
        raise_first(errors, self.row, sampling.frames[self.row], self.depth)
