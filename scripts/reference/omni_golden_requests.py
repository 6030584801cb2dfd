"""The conversations whose answers are committed in tests/goldens, and the seeds of their checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from reference.omni_pytorch_reference import Conversation

# Chosen for clear margins; with tiny_terse the Thinker says nothing to one question and one word to another.
SEEDS = {"tiny": 2, "tiny_ending": 15, "tiny_terse": 16}

_CALM = {"role": "system", "content": "Please speak slowly and with a calm, warm voice."}


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


_HELLO = _user("hello world, how are you today?")
_WALK = _user("今天天气很好，我们去公园散步。")
_TRAIN = _user("Der Zug fährt um 17:45 Uhr ab – in 3 Minuten! 🙂")
_TURNS = [
    _CALM,
    _WALK,
    {"role": "assistant", "content": "<think>\nit rains\n</think>\n\nThe train leaves at seven."},
    {"role": "user", "content": [{"type": "text", "text": "Read the next line"}, {"type": "text", "text": " again."}]},
]


def _ask(
    *messages: dict[str, Any],
    speaker: str | None = "Ethan",
    tokens: int = 8,
    frames: int = 14,
    penalty: float = 1.05,
) -> Conversation:
    return Conversation(
        messages=list(messages),
        speaker=speaker,
        max_new_tokens=tokens,
        max_frames=frames,
        repetition_penalty=penalty,
    )


_PENALTY = _ask(_HELLO, frames=24, penalty=3.0)

#: Spec name -> case name -> conversation. The texts of "tiny" end at their length: the last token is not spoken.
OMNI_CASES: dict[str, dict[str, Conversation]] = {
    "tiny": {
        "system_and_turns": _ask(*_TURNS, tokens=12),
        "text_only": _ask(_CALM, _HELLO, speaker=None, tokens=40),
        "speaker_chelsie": _ask(_HELLO, speaker="Chelsie"),
        "speaker_ethan": _ask(_HELLO, speaker="ethan"),
        "speaker_aiden": _ask(_HELLO, speaker="Aiden"),
        "penalty_1": replace(_PENALTY, repetition_penalty=1.0),
        "penalty_3": _PENALTY,
        "speech_ends_before_text": _ask(_TRAIN, tokens=24, frames=6),
    },
    "tiny_ending": {
        "text_ends_speech_at_length": _ask(_HELLO, tokens=200, frames=6),
        "both_end": _ask(_CALM, _TRAIN, tokens=200, frames=60),
        # With the golden's seed the end comes exactly when the frames are used up.
        "both_end_penalty_3": _ask(_WALK, speaker="Chelsie", tokens=200, frames=48, penalty=3.0),
        "text_only_ends": _ask(*_TURNS, speaker=None, tokens=200),
    },
    "tiny_terse": {
        "says_nothing": _ask(_TRAIN, speaker=None),
        "says_one_word": _ask(_HELLO, speaker="Aiden"),
    },
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two conversations of different lengths in one left-padded batch."""

    spec: str
    conversations: Mapping[str, Conversation]


PAIR = Pair("tiny", {"pair_short": _ask(_user("Hi"), tokens=9), "pair_long": _ask(*_TURNS[:3], _TRAIN, tokens=9)})


@dataclass(frozen=True, slots=True)
class Code2WavCase:
    """That many frames of random codes through the code2wav of a spec, as one piece."""

    spec: str
    frames: int


#: More frames than the reference puts into one chunk (300), and one frame.
CODE2WAV_CASES = {
    "code2wav_long": Code2WavCase("tiny", 331),
    "code2wav_one_frame": Code2WavCase("tiny", 1),
    "code2wav_bfloat16": Code2WavCase("tiny_ending", 40),
}
