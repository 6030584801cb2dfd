"""Closed vocabularies: which words of a text a small model was never taught."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set
from pathlib import Path

from cpspec_trt.errors import EngineError

VOCABULARY_FILE = "vocabulary.txt"
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def read_vocabulary(path: Path) -> frozenset[str]:
    """The words of ``vocabulary.txt``: UTF-8, one word a line, compared without regard to case.

    Raises:
        EngineError: the file cannot be read or holds no word.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise EngineError(f"{path}: cannot read the vocabulary: {fault}") from None
    words = frozenset(_plain(line.strip()) for line in lines if line.strip())
    if not words:
        raise EngineError(f"{path}: holds no word; write one word a line, or remove the file for an open vocabulary")
    return words


def words_outside(text: str, vocabulary: Set[str]) -> list[str]:
    """Words of ``text`` that ``vocabulary`` (lower case) lacks, as written, each once, in order of appearance.

    A word is a run of letters and digits, with apostrophes inside; punctuation and hyphens separate words.
    """
    first_written: dict[str, str] = {}
    for word in _WORD.findall(unicodedata.normalize("NFC", text)):
        first_written.setdefault(_plain(word), word)
    return [word for plain, word in first_written.items() if plain not in vocabulary]


def _plain(word: str) -> str:
    return unicodedata.normalize("NFC", word).lower().replace("’", "'")
