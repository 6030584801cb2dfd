"""A row of the compatibility table, and the tools whose names the table holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Where = Literal["flag", "file field", "request field", "message field", "content item field", "streaming field"]
Status = Literal["used", "refused", "ignored"]

INFER = "cpspec-infer"
BUILD = "cpspec-build"
TTS = "qwen3_tts_inference"
OMNI = "llm_inference"
LLM_BUILD = "llm_build"
AUDIO_BUILD = "audio_build"
# What cpspec-infer adds to the request files of one of the two tools.
INFER_TTS = "cpspec-infer on Qwen3-TTS files"
INFER_OMNI = "cpspec-infer on Qwen3-Omni files"

STREAMING = "streaming output is not in this release; the whole file is written when a request is done"
CHECKPOINT = "the engine directory holds all weights"
THINKER_SPECULATION = "speculation of the Thinker is not supported"
THINKER_SIZES = "sizes the Thinker's speculation only"
LORA = "LoRA adapters are not supported"
PER_REQUEST = "overrides the file's value (the reference reads it from the file only)"


@dataclass(frozen=True, slots=True)
class Row:
    """One name of one tool.

    Attributes:
        tool: the reference tool that defines the name, or the command of ours that adds it.
        where: what kind of name it is.
        name: the long flag or the JSON key.
        status: used; refused (an error with ``note``); ignored (a warning with ``note``).
        note: one phrase; for refused and ignored names it is the message.
        metavar: what a flag's value is; "" for a switch.
        aliases: other spellings of a flag.
        harmless: values that ask for nothing (the reference's defaults); they pass without a word.
    """

    tool: str
    where: Where
    name: str
    status: Status
    note: str
    metavar: str = ""
    aliases: tuple[str, ...] = ()
    harmless: tuple[object, ...] = ()
