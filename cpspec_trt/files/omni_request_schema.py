"""The shape of a Qwen3-Omni request file as pydantic models, and in words what each field takes.

Only ``omni_requests`` uses them; everybody else sees the frozen dataclasses made from them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from cpspec_trt.files.request_schema import (
    EXPECTED_OF_SPEECH,
    FLOAT32_MAX,
    LIMIT,
    BatchSize,
    Count,
    Given,
    Seed,
    SpeechModel,
    StrictModel,
    Text,
    TopK,
    content_branch,
    fits_float32,
)

# The limits that the reference documents.
MAX_MESSAGES = 64
MAX_ITEMS = 18
MAX_TEXT_BYTES = 128 * 1024


def _short(value: str) -> str:
    size = len(value.encode("utf-8"))
    if size > MAX_TEXT_BYTES:
        raise PydanticCustomError(
            LIMIT, f"holds {size} bytes of UTF-8; the limit is {MAX_TEXT_BYTES} (128 KiB), shorten it"
        )
    return value


def _few_messages(value: Any) -> Any:
    if isinstance(value, list) and len(value) > MAX_MESSAGES:
        raise PydanticCustomError(LIMIT, f"has {len(value)} messages; the limit is {MAX_MESSAGES}, send fewer")
    return value


def _few_items(value: Any) -> Any:
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        raise PydanticCustomError(LIMIT, f"has {len(value)} items; the limit is {MAX_ITEMS}, join some of them")
    return value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


ShortText = Annotated[Text, AfterValidator(_short)]
Temperature = Annotated[float, Field(ge=0, le=FLOAT32_MAX)]
TopP = Annotated[float, Field(gt=0, allow_inf_nan=False), AfterValidator(fits_float32)]
StopText = Annotated[Text, Field(min_length=1)]


class TextItemModel(StrictModel):
    """One item of a content list."""

    type: Literal["text"]
    text: ShortText


class MessageModel(StrictModel):
    """One message of a request."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[
        Annotated[ShortText, Tag("string")]
        | Annotated[list[TextItemModel], Field(min_length=1), BeforeValidator(_few_items), Tag("items")],
        Discriminator(content_branch),
    ]


class _SharedModel(SpeechModel):
    """All fields that the file gives and a request overrides; the names without a prefix are the Thinker's."""

    temperature: Given[Temperature] = None
    top_p: Given[TopP] = None
    top_k: Given[TopK] = None
    max_generate_length: Given[Count] = None
    do_sample: Given[bool] = None
    talker_do_sample: Given[bool] = None
    speaker: Text = ""
    sampling_seed: Given[Seed] = None
    apply_chat_template: bool = True
    add_generation_prompt: bool = True
    enable_thinking: Given[bool] = None


class RequestModel(_SharedModel):
    """One request."""

    messages: Annotated[list[MessageModel], Field(min_length=1), BeforeValidator(_few_messages)]
    stop: Annotated[list[StopText], BeforeValidator(_listed)] = Field(default_factory=list)


class FileModel(_SharedModel):
    """The whole file."""

    requests: Annotated[list[RequestModel], Field(min_length=1)]
    batch_size: BatchSize = 1
    streaming: dict[str, Any] = Field(default_factory=dict)


_BOOLEAN = "true or false"
_MESSAGE = '{"role": "user", "content": "Hello."}'

# Field name (``name[]`` for an element of a list) -> what it takes, as it stands after "write".
EXPECTED = EXPECTED_OF_SPEECH | {
    "requests": "a list with at least one request",
    "requests[]": f'an object such as {{"messages": [{_MESSAGE}]}}',
    "messages": f"a list such as [{_MESSAGE}]",
    "messages[]": f"an object such as {_MESSAGE}",
    "role": "'system', 'user' or 'assistant'",
    "content": "a string or a list of text items",
    "content[]": 'an object such as {"type": "text", "text": "Hello."}',
    "type": "'text'; image, audio and video input is not supported",
    "text": "a string",
    "temperature": "a finite fp32 number of at least 0 (0 is greedy)",
    "top_p": "a finite number above 0 (1 or more keeps all)",
    "top_k": "a whole number of at least 0 (0 keeps all)",
    "max_generate_length": "a whole number of tokens, at least 1",
    "talker_do_sample": _BOOLEAN,
    "apply_chat_template": _BOOLEAN,
    "add_generation_prompt": _BOOLEAN,
    "enable_thinking": _BOOLEAN,
    "stop": "a string, or a list of strings, none of them empty",
    "stop[]": "a string that is not empty",
    "streaming": "an object",
}
