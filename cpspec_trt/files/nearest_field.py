"""What somebody may have meant by a field that a request file does not have.

A hint must help more than it misleads: a name that other systems use, a name of another level, a known name that
holds the given one or is held by it, or one that differs by a typing error. Else there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from cpspec_trt.files.compatibility import OMNI, TTS, Row, Where

OWNERS: dict[Where, str] = {
    "file field": "the file",
    "request field": "a request",
    "message field": "a message",
    "content item field": "a content item",
    "streaming field": "streaming",
}
_ALIKE = 0.8  # of difflib: one wrong letter in a word of four
_DISTINCT = 8  # letters from which a part of a name says enough to be recognised with a typing error
_LONGEST, _MOST_WORDS = 64, 6  # characters and words of a name that are compared
_TOKENS = ("max_tokens", "max_new_tokens", "max_completion_tokens", "max_output_tokens", "max_length")
_EVERYWHERE = {
    **dict.fromkeys(("seed", "random_seed"), "sampling_seed"),
    **dict.fromkeys(("voice", "voice_id", "voice_name"), "speaker"),
    **dict.fromkeys(("prompt", "input", "inputs", "conversation", "query"), "messages"),
    **dict.fromkeys(("repeat_penalty", "talker_repetition_penalty"), "repetition_penalty"),
    **dict.fromkeys(("max_frames", "max_audio_frames", "talker_max_new_tokens"), "max_audio_length"),
    "greedy": "do_sample",
}
# What other systems call a field of ours, by tool.
_SYNONYMS: dict[str, dict[str, str]] = {
    TTS: {
        **_EVERYWHERE,
        **dict.fromkeys(_TOKENS, "max_audio_length"),
        **dict.fromkeys(("instructions", "style", "voice_description", "description"), "instruct"),
        **dict.fromkeys(("lang", "locale"), "language"),
        "subtalker_dosample": "subtalker_do_sample",
    },
    OMNI: {
        **_EVERYWHERE,
        **dict.fromkeys(_TOKENS, "max_generate_length"),
        **dict.fromkeys(("stop_sequences", "stop_words", "stop_strings"), "stop"),
        "stream": "streaming",
    },
}

Known = Mapping[Where, Mapping[str, Row]]


def hint(name: str, where: Where, known: Known, tool: str) -> str:
    """A sentence about what may have been meant, or "".

    Args:
        name: not known at its level.
        where: the level.
        known: level -> name -> row of the compatibility table.
        tool: ``TTS`` or ``OMNI``.
    """
    elsewhere = [(level, rows[name]) for level, rows in known.items() if name in rows]
    elsewhere.sort(key=lambda found: found[1].status != "used")
    if elsewhere:
        level, row = elsewhere[0]
        if row.status == "used":
            return f"did you mean {name} of {OWNERS[level]}?"
        return f"it is a field of {OWNERS[level]}, and {row.status} there: {row.note}"
    meant = _SYNONYMS[tool].get("_".join(_words(name))) or _alike(name, known[where])
    if meant is None:
        return ""
    level = where if meant in known[where] else next(level for level, rows in known.items() if meant in rows)
    row, spelled = known[level][meant], meant if level == where else f"{meant} of {OWNERS[level]}"
    return f"did you mean {spelled}?" + ("" if row.status == "used" else f" It is {row.status}: {row.note}")


def _alike(name: str, rows: Mapping[str, Row]) -> str | None:
    """The most similar name; one that is used rather than one that is not."""
    scored = [(row.status == "used", _likeness(name, candidate), candidate) for candidate, row in rows.items()]
    near = [found for found in scored if found[1][0] >= _ALIKE]
    return max(near)[2] if near else None


def _likeness(name: str, candidate: str) -> tuple[float, int]:
    """How well one of the names fits into the other, word by word; then how little of the longer one is left over."""
    given, known = _words(name), _words(candidate)
    whole, wanted = "_".join(given), "_".join(known)
    parts = [(whole, run) for run in _runs(known)] + [(run, wanted) for run in _runs(given)]
    best = max(float(left == right) if len(right) < _DISTINCT else _ratio(left, right) for left, right in parts)
    return max(best, _ratio(whole, wanted)), -abs(len(given) - len(known))


def _ratio(left: str, right: str) -> float:
    compared = SequenceMatcher(None, left, right)
    return compared.ratio() if compared.real_quick_ratio() >= _ALIKE else 0.0


def _words(name: str) -> list[str]:
    """``maxAudioLength``, ``max-audio-length`` and ``max_audio_length`` are the same three words."""
    words = re.split(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.\s]+", name[:_LONGEST])
    return [word.lower() for word in words if word][:_MOST_WORDS] or [""]


def _runs(words: list[str]) -> Iterator[str]:
    """Every run of neighbouring words."""
    for begin in range(len(words)):
        for end in range(begin + 1, len(words) + 1):
            yield "_".join(words[begin:end])
