"""The corpus on disk: WORK/features.npz (what was spoken) and WORK/codes.npz (its RVQ codes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .vocoder import ROWS_PER_FRAME, Array, synthesise

FEATURES, CODES = "features.npz", "codes.npz"
MEL_FLOOR = -17.0  # what lies below is silence


@dataclass(frozen=True, slots=True)
class Utterance:
    """One analysed utterance of T frames: features as in vocoder.py, f0 [16T] in Hz, phones with their ends in s."""

    text: str
    held: bool
    speaker: int
    mel: Array
    voicing: Array
    f0: Array
    cycles: NDArray[np.int64]
    phones: Sequence[str]
    phone_ends: Array


@dataclass(frozen=True, slots=True)
class Corpus:
    """N utterances, concatenated: per utterance text, held, speaker, lengths (frames) [N]; per row mel, voicing, f0;
    per frame cycles; phones and phone_ends as space-separated strings [N]."""

    text: NDArray[np.str_]
    held: NDArray[np.bool_]
    speaker: NDArray[np.int64]
    lengths: NDArray[np.int64]
    mel: NDArray[np.float16]
    voicing: NDArray[np.float16]
    f0: NDArray[np.float16]
    cycles: NDArray[np.int64]
    phones: NDArray[np.str_]
    phone_ends: NDArray[np.str_]

    @classmethod
    def of(cls, utterances: Sequence[Utterance]) -> Corpus:
        """Concatenate utterances; features are kept in half precision."""
        return cls(
            text=np.array([u.text for u in utterances]),
            held=np.array([u.held for u in utterances]),
            speaker=np.array([u.speaker for u in utterances]),
            lengths=np.array([len(u.cycles) for u in utterances]),
            mel=np.concatenate([u.mel for u in utterances]).astype(np.float16),
            voicing=np.concatenate([u.voicing for u in utterances]).astype(np.float16),
            f0=np.concatenate([u.f0 for u in utterances]).astype(np.float16),
            cycles=np.concatenate([u.cycles for u in utterances]),
            phones=np.array([" ".join(u.phones) for u in utterances]),
            phone_ends=np.array([" ".join(f"{end:.3f}" for end in u.phone_ends) for u in utterances]),
        )

    @classmethod
    def load(cls, work: Path) -> Corpus:
        """Read WORK/features.npz."""
        with np.load(work / FEATURES) as stored:
            return cls(**{name: stored[name] for name in cls.__slots__})

    def save(self, work: Path) -> None:
        """Write WORK/features.npz."""
        np.savez(work / FEATURES, **{name: getattr(self, name) for name in self.__slots__})

    def offsets(self) -> NDArray[np.int64]:
        """First frame of each utterance, and the number of frames at the end [N + 1]."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def waveform(self, index: int) -> NDArray[np.float32]:
        """The resynthesis of one utterance [T * 1920]: what the decoder learns to produce."""
        first, last = self.offsets()[index : index + 2]
        rows = slice(first * ROWS_PER_FRAME, last * ROWS_PER_FRAME)
        mel = np.maximum(self.mel[rows].astype(np.float64), MEL_FLOOR)
        return synthesise(mel, self.voicing[rows].astype(np.float64), self.cycles[first:last]).astype(np.float32)


def load_codes(work: Path) -> NDArray[np.int64]:
    """RVQ codes of all frames [frames, 16] from WORK/codes.npz."""
    with np.load(work / CODES) as stored:
        return stored["codes"].astype(np.int64)


def save_codes(work: Path, codes: NDArray[np.uint8]) -> None:
    """Write WORK/codes.npz."""
    np.savez(work / CODES, codes=codes)
