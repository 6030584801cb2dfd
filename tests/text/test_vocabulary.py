from __future__ import annotations

from pathlib import Path

import pytest

from cpspec_trt.errors import EngineError
from cpspec_trt.text.vocabulary import read_vocabulary, words_outside

DEMO_VOICE = Path(__file__).parent.parent.parent / "assets" / "demo-voice"
KNOWN = frozenset({"the", "meeting", "is", "at", "seven", "don't", "caf\u00e9"})


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ("The meeting is at seven.", []),
        ("THE Meeting, is -- at? Seven!", []),
        ("the dinner is at eight", ["dinner", "eight"]),
        ("Dinner at Eight, dinner at eight", ["Dinner", "Eight"]),
        ("zebra apple zebra the apple", ["zebra", "apple"]),
        ("at 7 or 7:30", ["7", "or", "30"]),
        ("don't don\u2019t DON'T", []),
        ("caf\u00e9 cafe\u0301 CAF\u00c9 cafe", ["cafe"]),
        ("seven-thirty", ["thirty"]),
        ("the_meeting \U0001f642 …", []),
        ("会议 seven встреча", ["会议", "встреча"]),
        ("", []),
    ],
)
def test_words_the_model_was_not_taught_are_listed_once_as_written(text: str, outside: list[str]) -> None:
    assert words_outside(text, KNOWN) == outside


def test_the_demo_voice_knows_every_word_of_its_held_out_sentences() -> None:
    vocabulary = read_vocabulary(DEMO_VOICE / "checkpoint" / "vocabulary.txt")
    sentences = (DEMO_VOICE / "heldout.txt").read_text(encoding="utf-8")
    assert words_outside(sentences, vocabulary) == []
    assert words_outside("the mother is in the spaceship now", vocabulary) == ["spaceship"]


def test_a_vocabulary_is_read_without_regard_to_case_and_empty_lines(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_text("The\n\n  Don\u2019t \nCafe\u0301\r\n", encoding="utf-8")
    assert read_vocabulary(path) == {"the", "don't", "caf\u00e9"}


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_vocabulary_without_words_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(content)
    with pytest.raises(EngineError, match=r"vocabulary\.txt: holds no word"):
        read_vocabulary(path)


def test_a_vocabulary_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"vocabulary\.txt: cannot read the vocabulary"):
        read_vocabulary(tmp_path / "vocabulary.txt")
    (tmp_path / "vocabulary.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(EngineError, match=r"vocabulary\.txt: cannot read the vocabulary"):
        read_vocabulary(tmp_path / "vocabulary.txt")
