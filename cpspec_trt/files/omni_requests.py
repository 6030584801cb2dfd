"""The request file of Qwen3-Omni: read, checked and merged once, here.

``read_omni_requests`` turns the JSON of ``llm_inference`` (plus our own fields, see
``compatibility``) into frozen dataclasses. Nothing behind it checks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cpspec_trt.errors import InputFileError, RequestError, UsageError
from cpspec_trt.files.compatibility import OMNI
from cpspec_trt.files.json_io import read_json
from cpspec_trt.files.omni_request_schema import EXPECTED, FileModel, MessageModel, RequestModel
from cpspec_trt.files.request_reading import check_batch_size, check_names, effective_seed, shown, validate
from cpspec_trt.files.request_schema import SpeechModel
from cpspec_trt.files.requests import SamplingSettings

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message; ``content`` is a string, or the texts of its items if the file has a list of them."""

    role: Role
    content: str | tuple[str, ...]

    @property
    def text(self) -> str:
        """The content as one string, items joined."""
        return self.content if isinstance(self.content, str) else "".join(self.content)

    def to_json(self) -> dict[str, Any]:
        """The message as it stood in the file, which is also what a chat template takes."""
        if isinstance(self.content, str):
            return {"role": self.role, "content": self.content}
        return {"role": self.role, "content": [{"type": "text", "text": text} for text in self.content]}


@dataclass(frozen=True, slots=True)
class ThinkerSettings:
    """What the file asks of the Thinker. None: not in the file. A temperature of 0 is greedy."""

    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_generate_length: int | None  # tokens
    do_sample: bool | None


@dataclass(frozen=True, slots=True)
class OmniRequest:
    """One request.

    Attributes:
        index: its position in the file.
        messages: at least one.
        stop: strings that end the answer, none of them empty.
        apply_chat_template: False: the prompt is all contents joined as they stand.
        add_generation_prompt: handed to the chat template.
        enable_thinking: handed to the chat template; None leaves the name undefined there.
        speaker: None: not given (or "").
        thinker: the Thinker's settings.
        talker: settings of Talker and CodePredictor; ``do_sample`` is the file's ``talker_do_sample``.
    """

    index: int
    messages: tuple[ChatMessage, ...]
    stop: tuple[str, ...]
    apply_chat_template: bool
    add_generation_prompt: bool
    enable_thinking: bool | None
    speaker: str | None
    thinker: ThinkerSettings
    talker: SamplingSettings

    @property
    def seed(self) -> int:
        """The effective seed, the same for Thinker, Talker and CodePredictor."""
        return self.talker.seed


@dataclass(frozen=True, slots=True)
class OmniRequestFile:
    """A request file that can be answered. ``warnings`` are one line each, ready to print."""

    path: Path
    batch_size: int
    requests: tuple[OmniRequest, ...]
    warnings: tuple[str, ...]


def read_omni_requests(
    path: Path, strict: bool, batch_size: int | None = None, max_generate_length: int | None = None
) -> OmniRequestFile:
    """Read, check and merge one request file.

    Args:
        path: the JSON file.
        strict: refuse unknown fields instead of warning about them.
        batch_size: overrides the file's ``batch_size``.
        max_generate_length: overrides that of the file and of every request.

    Raises:
        InputFileError: one line with file, field path, value and remedy.
        UsageError: ``batch_size`` is not in 1 … 16, or ``max_generate_length`` is not positive.
    """
    check_batch_size(batch_size)
    if max_generate_length is not None and max_generate_length < 1:
        raise UsageError(f"--maxGenerateLength is {max_generate_length}; give a whole number of at least 1")
    document = read_json(path, InputFileError, "request file")
    file = validate(FileModel, document, path, EXPECTED)
    warnings = tuple(check_names(path, document, OMNI, strict))
    requests = []
    for index, request in enumerate(file.requests):
        messages = tuple(_message(message) for message in request.messages)
        _check_text(f"{path}: requests[{index}].messages", messages)
        requests.append(_merge(file, request, index, messages, max_generate_length))
    return OmniRequestFile(path, batch_size or file.batch_size, tuple(requests), warnings)


def read_conversation(where: str, messages: Any, stop: Any) -> tuple[tuple[ChatMessage, ...], tuple[str, ...]]:
    """Messages and stop strings of a caller in Python, checked like those of a request in a file.

    Args:
        where: what the message of an error begins with.
        messages: dictionaries with ``role`` and ``content``.
        stop: a string or a list of strings.

    Raises:
        RequestError: field path, value and remedy.
    """
    given = stop if isinstance(stop, str) or not isinstance(stop, Sequence) else list(stop)
    listed = [dict(message) if isinstance(message, Mapping) else message for message in messages]
    try:
        request = validate(RequestModel, {"messages": listed, "stop": given}, Path(where), EXPECTED)
        found = tuple(_message(message) for message in request.messages)
        _check_text(f"{where}: messages", found)
    except InputFileError as fault:
        raise RequestError(str(fault)) from None
    return found, tuple(dict.fromkeys(request.stop))


def plain_request(
    messages: tuple[ChatMessage, ...],
    stop: tuple[str, ...],
    speaker: str | None,
    max_new_tokens: int | None,
    talker: SamplingSettings,
) -> OmniRequest:
    """A request that leaves everything it does not say to the checkpoint.

    Args:
        messages: from ``read_conversation``, as ``stop``.
        stop: strings that end the answer.
        speaker: whose voice; None is the default.
        max_new_tokens: token cap of the answer; None is the default.
        talker: settings of Talker and CodePredictor, whose seed is the request's.
    """
    return OmniRequest(
        index=0,
        messages=messages,
        stop=stop,
        apply_chat_template=True,
        add_generation_prompt=True,
        enable_thinking=None,
        speaker=speaker,
        thinker=ThinkerSettings(None, None, None, max_new_tokens, None),
        talker=talker,
    )


def _message(message: MessageModel) -> ChatMessage:
    content = message.content
    return ChatMessage(message.role, content if isinstance(content, str) else tuple(item.text for item in content))


def _check_text(where: str, messages: tuple[ChatMessage, ...]) -> None:
    for position, message in enumerate(messages):
        if message.role == "user" and not message.text.strip():
            raise InputFileError(
                f"{where}[{position}].content is {shown(message.text)}; write what the user says, or remove the message"
            )
    if not any(message.text.strip() for message in messages):
        raise InputFileError(f"{where} holds no text at all; write what the user says")


def _merge(
    file: FileModel, request: RequestModel, index: int, messages: tuple[ChatMessage, ...], longest: int | None
) -> OmniRequest:
    """The request's own values over the file's."""

    def pick(name: str) -> Any:
        return getattr(request if name in request.model_fields_set else file, name)

    speech = {name: pick(name) for name in SpeechModel.model_fields}
    seed = effective_seed(request.sampling_seed, file.sampling_seed, index)
    return OmniRequest(
        index=index,
        messages=messages,
        stop=tuple(dict.fromkeys(request.stop)),
        apply_chat_template=pick("apply_chat_template"),
        add_generation_prompt=pick("add_generation_prompt"),
        enable_thinking=pick("enable_thinking"),
        speaker=pick("speaker") or None,
        thinker=ThinkerSettings(
            temperature=pick("temperature"),
            top_p=pick("top_p"),
            top_k=pick("top_k"),
            max_generate_length=pick("max_generate_length") if longest is None else longest,
            do_sample=pick("do_sample"),
        ),
        talker=SamplingSettings(**speech, do_sample=pick("talker_do_sample"), seed=seed),
    )
