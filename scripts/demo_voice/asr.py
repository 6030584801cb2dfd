"""Word error rate by a Whisper model (faster-whisper). Numerals in the transcript are spelled out before scoring."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray

from .vocoder import SAMPLE_RATE

WHISPER_RATE = 16_000
LEAD_SECONDS, TAIL_SECONDS, PEAK = 0.2, 0.3, 0.7  # silence around the speech, and its level
BEAM = 5

# fmt: off
_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
# fmt: on
_TENS = dict(enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2))


def spell(number: int) -> str:
    """A number in words, the way a time is read: 7 seven, 730 seven thirty, 1210 twelve ten, 200 two hundred."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens] if ones == 0 else f"{_TENS[tens]} {_ONES[ones]}"
    hundreds, rest = divmod(number, 100)
    if number < 10_000 and rest:
        return f"{spell(hundreds)} {spell(rest)}"
    return f"{spell(hundreds)} hundred" if number < 1000 else str(number)


def words_of(text: str) -> list[str]:
    """Lower-case words without punctuation; times and numbers spelled out, the spelling "grey" unified."""
    text = text.lower().replace("a.m.", "").replace("p.m.", "").replace("-", " ").replace("grey", "gray")
    text = re.sub(r"(\d+):00", r"\1", text)
    text = re.sub(r"(\d+)[:.](\d+)", r"\1 \2", text)
    text = re.sub(r"(?<=\d),(?=\d)", "", text)
    text = re.sub(r"\d+", lambda match: f" {spell(int(match.group()))} ", text)
    return re.sub(r"[^a-z' ]", " ", text).split()


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Levenshtein distance in words."""
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
    return row[-1]


@dataclass(frozen=True, slots=True)
class Score:
    """Errors over some sentences, with (sentence, transcript, errors) of each."""

    errors: int
    words: int
    exact: int
    transcripts: list[tuple[str, str, int]]

    @property
    def word_error_rate(self) -> float:
        """Errors per word of the true sentences."""
        return self.errors / self.words

    @property
    def exact_share(self) -> float:
        """Share of the sentences without an error."""
        return self.exact / len(self.transcripts)


class Recogniser:
    """A Whisper model in CTranslate2 format: a folder, or a name that faster-whisper knows and downloads."""

    def __init__(self, model: str, threads: int) -> None:
        from faster_whisper import WhisperModel

        self._model = WhisperModel(model, device="cpu", compute_type="int8", cpu_threads=threads)

    def transcribe(self, wave: NDArray[np.floating]) -> str:
        """Text of speech at 24 kHz [samples]."""
        padded = np.pad(wave.astype(np.float32), (int(LEAD_SECONDS * SAMPLE_RATE), int(TAIL_SECONDS * SAMPLE_RATE)))
        resampled = soxr.resample(padded, SAMPLE_RATE, WHISPER_RATE)
        levelled = (resampled / max(1e-4, np.abs(resampled).max()) * PEAK).astype(np.float32)
        segments, _ = self._model.transcribe(
            levelled, language="en", beam_size=BEAM, condition_on_previous_text=False, without_timestamps=True
        )
        return " ".join(segment.text for segment in segments)

    def score(self, spoken: Sequence[tuple[str, NDArray[np.floating]]]) -> Score:
        """Transcribe (sentence, waveform) pairs and count the word errors."""
        transcripts, words = [], 0
        for sentence, wave in spoken:
            wanted, heard = words_of(sentence), words_of(self.transcribe(wave))
            words += len(wanted)
            transcripts.append((sentence, " ".join(heard), edit_distance(wanted, heard)))
        errors = [errors for _, _, errors in transcripts]
        return Score(sum(errors), words, errors.count(0), transcripts)
