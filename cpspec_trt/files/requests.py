"""The request file of Qwen3-TTS: read, checked and merged once, here.

``read_tts_requests`` turns the JSON of ``qwen3_tts_inference`` (plus our own fields, see
``compatibility``) into frozen dataclasses. Nothing behind it checks again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cpspec_trt.errors import InputFileError, UsageError
from cpspec_trt.files.compatibility import INFER, Row, Where, rows_for
from cpspec_trt.files.json_io import read_json
from cpspec_trt.files.request_schema import (
    EXPECTED,
    LONE_SURROGATE,
    MAX_BATCH,
    FileModel,
    MessageModel,
    RequestModel,
    SamplingModel,
)

SPOKEN_ROLE = "assistant"
DEFAULT_SEED = 42
_SEEDS = 2**64
_OPTIONAL = frozenset(name for name, field in FileModel.model_fields.items() if not field.is_required())
_OWNERS: dict[Where, str] = {
    "file field": "the file",
    "request field": "a request",
    "message field": "a message",
    "content item field": "a content item",
}


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
    if batch_size is not None and not 1 <= batch_size <= MAX_BATCH:
        raise UsageError(f"--batchSize is {batch_size}; give a whole number from 1 to {MAX_BATCH}")
    document = read_json(path, InputFileError, "request file")
    try:
        file = FileModel.model_validate(document)
    except ValidationError as fault:
        raise InputFileError(f"{path}: {_describe(fault, document)}") from None
    warnings = list(_check_names(path, document, strict))
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


def shown(value: object) -> str:
    """``value`` as it may stand in a one-line message: printable and short."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:50]}… ({len(text)} characters)"


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

    if request.sampling_seed is not None:
        seed = request.sampling_seed
    else:
        seed = (DEFAULT_SEED if file.sampling_seed is None else file.sampling_seed) + index
    settings = {name: pick(name) for name in SamplingModel.model_fields}
    return TtsRequest(
        index=index,
        text=text,
        messages=messages,
        speaker=pick("speaker") or None,
        language=pick("language") or None,
        instruct=pick("instruct") or None,
        non_streaming_mode=pick("non_streaming_mode"),
        settings=SamplingSettings(**settings, seed=seed % _SEEDS),
    )


def _check_names(path: Path, document: dict[str, Any], strict: bool) -> Iterator[str]:
    """Refuse and warn by the compatibility table; yields the warnings."""
    known = {where: rows_for(INFER, where) for where in _OWNERS}
    for where, prefix, value in _objects(document):
        rows = known[where]
        for name, given in value.items():
            row, field = rows.get(name), f"{prefix}{name if name.isidentifier() else shown(name)}"
            if row is None:
                nearest = _nearest(name, where, known)
                if strict:
                    raise InputFileError(
                        f"{path}: {field} is not a known field; did you mean {nearest}? "
                        "Rename or remove it, or run without --strict"
                    )
                yield f"{path}: {field} is not a known field and is ignored; the nearest known name is {nearest}"
            elif row.status != "used" and not _asks_for_nothing(row, given):
                if row.status == "refused":
                    raise InputFileError(f"{path}: {field} is {shown(given)}: {row.note}; remove the field")
                yield f"{path}: {field} is {shown(given)} and is ignored: {row.note}"


def _objects(document: dict[str, Any]) -> Iterator[tuple[Where, str, dict[str, Any]]]:
    """Every object of a valid document, with the prefix of its fields' paths."""
    yield "file field", "", document
    for i, request in enumerate(document["requests"]):
        yield "request field", f"requests[{i}].", request
        for j, message in enumerate(request["messages"]):
            yield "message field", f"requests[{i}].messages[{j}].", message
            if isinstance(message["content"], list):
                for k, item in enumerate(message["content"]):
                    yield "content item field", f"requests[{i}].messages[{j}].content[{k}].", item


def _nearest(name: str, where: Where, known: dict[Where, dict[str, Row]]) -> str:
    """The same name at another level, else the most similar name at this one."""
    for level, rows in known.items():
        if name in rows and rows[name].status == "used":
            return f"{name} of {_OWNERS[level]}"
    used = [candidate for candidate, row in known[where].items() if row.status == "used"]
    return get_close_matches(name[:64], used, n=1, cutoff=0.0)[0]


def _asks_for_nothing(row: Row, value: object) -> bool:
    return any(type(value) is type(harmless) and value == harmless for harmless in row.harmless)


def _describe(fault: ValidationError, document: dict[str, Any]) -> str:
    """The first fault as `path is value; write what is expected`."""
    error = fault.errors(include_url=False, include_context=False)[0]
    path, name, value = _locate(error["loc"], document)
    expected = EXPECTED[name]
    if error["type"] == "missing":
        return f"{path} is missing; add {expected}"
    if error["type"] == LONE_SURROGATE:
        return f"{path} is {shown(value)}, which holds half a character (a lone surrogate); write whole characters"
    if value is None and name in _OPTIONAL:
        return f"{path} is null; write {expected}, or remove the field to use the default"
    if value == []:
        return f"{path} is empty; write {expected}"
    return f"{path} is {shown(value)}; write {expected}"


def _locate(loc: tuple[int | str, ...], document: Any) -> tuple[str, str, Any]:
    """Path, last field name ("name[]" for a list's element) and value of a fault.

    The parts of ``loc`` that pydantic adds for the branch of a union name nothing in the document.
    """
    path, name, value = "", "", document
    for part in loc:
        if isinstance(part, int):
            path, name, value = f"{path}[{part}]", f"{name}[]", value[part]
        elif isinstance(value, dict):
            path, name, value = f"{path}.{part}" if path else part, part, value.get(part)
    return path, name, value
