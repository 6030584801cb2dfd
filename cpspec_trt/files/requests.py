"""The request file of Qwen3-TTS: read, checked and merged once, here.

``read_tts_requests`` turns the JSON of ``qwen3_tts_inference`` (plus our own fields, see
``compatibility``) into frozen dataclasses. Nothing behind it checks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpspec_trt.errors import InputFileError
from cpspec_trt.files.compatibility import TTS
from cpspec_trt.files.json_io import read_json
from cpspec_trt.files.request_reading import check_batch_size, check_names, effective_seed, shown, validate
from cpspec_trt.files.request_schema import EXPECTED, FileModel, MessageModel, RequestModel, SamplingModel

SPOKEN_ROLE = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One message; ``content`` is the joined text of its items."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """What the file asks for. None: not in the file. 0 in a talker or subtalker value: the default, asked for by name.

    ``seed`` is the effective seed, in [0, 2**64): the request's own ``sampling_seed``, else the
    file's (42 if absent) plus the request's position.
    """

    talker_temperature: float | None
    talker_top_k: int | None
    talker_top_p: float | None
    repetition_penalty: float | None
    subtalker_temperature: float | None
    subtalker_top_k: int | None
    subtalker_top_p: float | None
    max_audio_length: int | None  # frames
    do_sample: bool | None
    subtalker_do_sample: bool | None
    seed: int


@dataclass(frozen=True, slots=True)
class TtsRequest:
    """One request. ``text`` is what is spoken; None in speaker, language or instruct: not given (or "")."""

    index: int
    text: str
    messages: tuple[Message, ...]
    speaker: str | None
    language: str | None
    instruct: str | None
    non_streaming_mode: bool | None
    settings: SamplingSettings


@dataclass(frozen=True, slots=True)
class TtsRequestFile:
    """A request file that can be answered. ``warnings`` are one line each, ready to print."""

    path: Path
    batch_size: int
    requests: tuple[TtsRequest, ...]
    warnings: tuple[str, ...]


def read_tts_requests(path: Path, strict: bool, batch_size: int | None = None) -> TtsRequestFile:
    """Read, check and merge one request file.

    Args:
        path: the JSON file.
        strict: refuse unknown fields instead of warning about them.
        batch_size: overrides the file's ``batch_size``.

    Raises:
        InputFileError: one line with file, field path, value and remedy.
        UsageError: ``batch_size`` is not in 1 … 16.
    """
    check_batch_size(batch_size)
    document = read_json(path, InputFileError, "request file")
    file = validate(FileModel, document, path, EXPECTED)
    warnings = list(check_names(path, document, TTS, strict))
    requests = []
    for index, request in enumerate(file.requests):
        messages = tuple(Message(message.role, _joined(message)) for message in request.messages)
        spoken = _spoken_message(path, index, messages)
        warnings += [
            f"{path}: requests[{index}].messages[{position}] has role {shown(message.role)} and is not spoken"
            for position, message in enumerate(messages)
            if position != spoken
        ]
        requests.append(_merge(file, request, index, messages, messages[spoken].content))
    return TtsRequestFile(path, batch_size or file.batch_size, tuple(requests), tuple(warnings))


def _joined(message: MessageModel) -> str:
    return message.content if isinstance(message.content, str) else "".join(item.text for item in message.content)


def _spoken_message(path: Path, index: int, messages: tuple[Message, ...]) -> int:
    """Position of the one message that is spoken."""
    where = f"{path}: requests[{index}].messages"
    spoken = [position for position, message in enumerate(messages) if message.role == SPOKEN_ROLE]
    if not spoken:
        roles = ", ".join(sorted({shown(message.role) for message in messages})[:5])
        raise InputFileError(
            f"{where} has no message with role '{SPOKEN_ROLE}' (found {roles}); "
            f"the spoken text is the {SPOKEN_ROLE} message's content, so give the text that role"
        )
    if len(spoken) > 1:
        raise InputFileError(f"{where} has {len(spoken)} messages with role '{SPOKEN_ROLE}'; keep the one to be spoken")
    content = messages[spoken[0]].content
    if not content.strip():
        raise InputFileError(f"{where}[{spoken[0]}].content is {shown(content)}; write the text to be spoken")
    return spoken[0]


def _merge(file: FileModel, request: RequestModel, index: int, messages: tuple[Message, ...], text: str) -> TtsRequest:
    """The request's own values over the file's."""

    def pick(name: str) -> Any:
        return getattr(request if name in request.model_fields_set else file, name)

    settings = {name: pick(name) for name in SamplingModel.model_fields}
    return TtsRequest(
        index=index,
        text=text,
        messages=messages,
        speaker=pick("speaker") or None,
        language=pick("language") or None,
        instruct=pick("instruct") or None,
        non_streaming_mode=pick("non_streaming_mode"),
        settings=SamplingSettings(**settings, seed=effective_seed(request.sampling_seed, file.sampling_seed, index)),
    )
