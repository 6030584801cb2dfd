"""The shape of a Qwen3-TTS request file as pydantic models, and in words what each field takes.

Only the readers use them; everybody else sees the frozen dataclasses made from them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

MAX_BATCH = 16
# Error types of our own: text that no encoding can write, and more than a documented limit allows.
LONE_SURROGATE = "lone_surrogate"
LIMIT = "limit"
_INT32_MAX = 2**31 - 1
_UINT64_MAX = 2**64 - 1
# Sampling runs in fp32: a value that is 0 or infinite there is not what the file says.
FLOAT32_TINY, FLOAT32_MAX = 1.1754943508222875e-38, 3.4028234663852886e38
# The Talker divides or multiplies logits by the penalty. Beyond these bounds a penalised code is settled either way,
# and the quotient could overflow in fp32.
LEAST_PENALTY, MOST_PENALTY = 1e-3, 1e3

T = TypeVar("T")


def _refuse_null(value: Any) -> Any:
    if value is None:
        raise ValueError("null")
    return value


def _whole(value: Any) -> Any:
    """50.0 is a whole number; the reference's parser takes it too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def fits_float32(value: float) -> float:
    """A validator: 0, or a magnitude that fp32 holds without becoming 0 or infinite."""
    if value != 0 and not FLOAT32_TINY <= value <= FLOAT32_MAX:
        raise ValueError("outside fp32")
    return value


def _encodable(value: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise PydanticCustomError(LONE_SURROGATE, "lone surrogate")
    return value


def content_branch(content: Any) -> str | None:
    """Which form a message's content has: ``string``, ``items`` or neither."""
    if isinstance(content, str):
        return "string"
    return "items" if isinstance(content, list) else None


Text = Annotated[str, AfterValidator(_encodable)]
# None is "not in the file"; an explicit null is refused.
Given = Annotated[T | None, BeforeValidator(_refuse_null)]
Temperature = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(fits_float32)]
TopP = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(fits_float32)]
Penalty = Annotated[float, Field(ge=LEAST_PENALTY, le=MOST_PENALTY)]
TopK = Annotated[int, Field(ge=0, le=_INT32_MAX), BeforeValidator(_whole)]
Count = Annotated[int, Field(ge=1, le=_INT32_MAX), BeforeValidator(_whole)]
Seed = Annotated[int, Field(ge=0, le=_UINT64_MAX), BeforeValidator(_whole)]
BatchSize = Annotated[int, Field(ge=1, le=MAX_BATCH), BeforeValidator(_whole)]


class StrictModel(BaseModel):
    """One object of a request file. Names it lacks are the compatibility table's business."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class SpeechModel(StrictModel):
    """Sampling values of Talker and CodePredictor; both the file and a request may have them."""

    talker_temperature: Given[Temperature] = None
    talker_top_k: Given[TopK] = None
    talker_top_p: Given[TopP] = None
    repetition_penalty: Given[Penalty] = None
    subtalker_temperature: Given[Temperature] = None
    subtalker_top_k: Given[TopK] = None
    subtalker_top_p: Given[TopP] = None
    max_audio_length: Given[Count] = None
    subtalker_do_sample: Given[bool] = None


class SamplingModel(SpeechModel):
    """``do_sample`` is the Talker's: Qwen3-TTS has no Thinker."""

    do_sample: Given[bool] = None


class _SharedModel(SamplingModel):
    """All fields that the file gives and a request overrides."""

    speaker: Text = ""
    language: Text = ""
    instruct: Text = ""
    non_streaming_mode: Given[bool] = None
    sampling_seed: Given[Seed] = None


class TextItemModel(StrictModel):
    """One item of a content list."""

    type: Literal["text"]
    text: Text


class MessageModel(StrictModel):
    """One message of a request."""

    role: Text
    content: Annotated[
        Annotated[Text, Tag("string")] | Annotated[list[TextItemModel], Tag("items")], Discriminator(content_branch)
    ]


class RequestModel(_SharedModel):
    """One request."""

    messages: Annotated[list[MessageModel], Field(min_length=1)]


class FileModel(_SharedModel):
    """The whole file."""

    requests: Annotated[list[RequestModel], Field(min_length=1)]
    batch_size: BatchSize = 1


_TEMPERATURE = "a finite fp32 number of at least 0 (0 means the default)"
_TOP_K = "a whole number of at least 0 (0 means the default)"
_TOP_P = "a finite number above 0 (1 or more keeps all, 0 means the default)"
PENALTY = f"a number from {LEAST_PENALTY:g} to {MOST_PENALTY:g} (1 penalises nothing)"
_BOOLEAN = "true or false"
_STRING = "a string"

# Field name (``name[]`` for an element of a list) -> what it takes, as it stands after "write".
EXPECTED_OF_SPEECH = {
    "speaker": _STRING,
    "sampling_seed": "a whole number from 0 to 18446744073709551615",
    "batch_size": f"a whole number from 1 to {MAX_BATCH}",
    "talker_temperature": _TEMPERATURE,
    "talker_top_k": _TOP_K,
    "talker_top_p": _TOP_P,
    "repetition_penalty": PENALTY,
    "subtalker_temperature": _TEMPERATURE,
    "subtalker_top_k": _TOP_K,
    "subtalker_top_p": _TOP_P,
    "max_audio_length": "a whole number of frames, at least 1",
    "do_sample": _BOOLEAN,
    "subtalker_do_sample": _BOOLEAN,
}
EXPECTED = EXPECTED_OF_SPEECH | {
    "requests": "a list with at least one request",
    "requests[]": 'an object such as {"messages": [{"role": "assistant", "content": "Hello."}]}',
    "messages": 'a list such as [{"role": "assistant", "content": "Hello."}]',
    "messages[]": 'an object such as {"role": "assistant", "content": "Hello."}',
    "role": "a string such as 'assistant'",
    "content": "a string or a list of text items",
    "content[]": 'an object such as {"type": "text", "text": "Hello."}',
    "type": "'text', the only kind of content that can be spoken",
    "text": _STRING,
    "language": _STRING,
    "instruct": _STRING,
    "non_streaming_mode": _BOOLEAN,
}
