"""What the live comparisons of both families share: when two answers are equal, and the count of them."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

WINDOWS = (0, 3)
WAVEFORM_TOLERANCE = 1e-4
# Where two logits are nearer than this, two correct float32 implementations may choose differently.
NEAR_TIE = 2e-5


class Sound(Protocol):
    """Speech of the reference."""

    @property
    def codes(self) -> NDArray[np.int64]: ...
    @property
    def waveform(self) -> NDArray[np.float32]: ...
    @property
    def sample_rate(self) -> int: ...
    @property
    def finish_reason(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Spoken:
    """Speech of ours: codes [frames, groups], samples [n]."""

    codes: NDArray[np.integer]
    samples: NDArray[np.float32]
    sample_rate: int
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer of ours against the reference's: what differs, if anything, and how far the sound is off."""

    difference: str | None
    waveform_error: float


@dataclass(frozen=True, slots=True)
class Compared:
    """A verdict, the line that tells it, and whether the reference itself was so undecided that it does not count."""

    line: str
    verdict: Verdict
    near_tie: bool


def compare_speech(spoken: Spoken, expected: Sound) -> Verdict:
    """Name the first thing that differs."""
    if spoken.codes.shape != expected.codes.shape:
        return Verdict(f"codes {spoken.codes.shape} instead of {expected.codes.shape}", np.nan)
    if not np.array_equal(spoken.codes, expected.codes):
        frame, group = np.argwhere(spoken.codes != expected.codes)[0]
        return Verdict(f"codes differ from frame {frame}, group {group} on", np.nan)
    if spoken.finish_reason != expected.finish_reason:
        return Verdict(f"finish reason {spoken.finish_reason} instead of {expected.finish_reason}", np.nan)
    if spoken.samples.shape != expected.waveform.shape or spoken.sample_rate != expected.sample_rate:
        return Verdict(f"{spoken.samples.size} samples instead of {expected.waveform.size}", np.nan)
    error = float(np.abs(spoken.samples - expected.waveform).max())
    return Verdict(None if error <= WAVEFORM_TOLERANCE else "the waveform differs", error)


def run(description: str | None, compare_checkpoints: Callable[[int], Iterator[Compared]]) -> None:
    """Compare on as many seeds as the command line says, print every line, and exit 1 if anything differs.

    Args:
        description: for ``--help``.
        compare_checkpoints: all answers on the checkpoints of one seed.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, help="seed of the first checkpoints (default: a fresh one, printed)")
    parser.add_argument("--rounds", type=int, default=2, help="checkpoints per spec (default: 2)")
    options = parser.parse_args()
    first = secrets.randbelow(2**31) if options.seed is None else options.seed
    failures = counted = 0
    for seed in range(first, first + options.rounds):
        for compared in compare_checkpoints(seed):
            wrong = compared.verdict.difference is not None
            skipped = wrong and compared.near_tie
            counted += not skipped
            failures += wrong and not skipped
            result = compared.verdict.difference or "equal"
            print(compared.line, f"near tie, not counted ({result})" if skipped else result)
    print(f"{counted - failures} of {counted} answers equal (repeat with --seed {first} --rounds {options.rounds})")
    sys.exit(1 if failures or not counted else 0)
