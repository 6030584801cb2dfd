"""Weights as a pure function of (seed, tensor name): the same bytes in any order, file or library version.

Only the raw words of a Philox generator and exact float32 operations are used. numpy promises the raw
words to be stable for ever; it does not promise that for its distributions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 20  # values made at a time; even, since one 64-bit word gives two values


@dataclass(frozen=True, slots=True)
class Law:
    """Independent uniform values in ``[center - half_width, center + half_width)``."""

    center: float
    half_width: float


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """One tensor: its name, its shape, the law of its values, and rows (first axis) multiplied by a factor."""

    name: str
    shape: tuple[int, ...]
    law: Law
    row_factors: tuple[tuple[int, float], ...] = ()

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)


def spread(std: float, center: float = 0.0) -> Law:
    """The law with the given mean and standard deviation."""
    return Law(center, std * math.sqrt(3.0))


def fan_in(inputs: int, gain: float) -> Law:
    """Weights under which ``inputs`` values of variance 1 add up to variance ``gain**2``."""
    return spread(gain / math.sqrt(inputs))


def value_blocks(plan: TensorPlan, seed: int) -> Iterator[NDArray[np.float32]]:
    """The values of one tensor in row-major order, float32, at most ``BLOCK`` at a time."""
    key = hashlib.sha256(f"{seed}:{plan.name}".encode()).digest()[:16]
    generator = np.random.Philox(key=int.from_bytes(key, "little"))
    row = plan.size // plan.shape[0]
    for start in range(0, plan.size, BLOCK):
        length = min(BLOCK, plan.size - start)
        words = generator.random_raw((length + 1) // 2).astype("<u8").view("<u4")[:length]
        values = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
        values = values * np.float32(plan.law.half_width) + np.float32(plan.law.center)
        for index, factor in plan.row_factors:
            values[max(index * row - start, 0) : max((index + 1) * row - start, 0)] *= np.float32(factor)
        yield values
