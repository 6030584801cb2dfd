"""From the messages of a request to the text that the Thinker reads.

A checkpoint brings its chat template along as Jinja source. It is rendered here as transformers renders it: in the
immutable sandbox, with the same options, filters and functions, and with ``messages``, ``tools`` and ``documents``
(both none), ``add_generation_prompt``, ``enable_thinking`` if the request gives it, and the named special tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from cpspec_trt.errors import CheckpointError, RequestError
from cpspec_trt.files.json_io import read_json
from cpspec_trt.files.omni_requests import ChatMessage, OmniRequest
from cpspec_trt.text.template_sandbox import EndlessError, RefusedError, compile_template, line_of, render
from cpspec_trt.text.tokenizer import named_special_tokens

TEMPLATE_FILE = "chat_template.jinja"
LEGACY_FILE = "chat_template.json"
CONFIG_FILE = "tokenizer_config.json"
DEFAULT_NAME = "default"

_COPY = "copy the file from the published checkpoint"


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A compiled template.

    Attributes:
        path: the file it came from, for messages.
        special_tokens: ``eos_token`` and the like, as templates know them.
    """

    path: Path
    special_tokens: Mapping[str, str]
    _compiled: jinja2.Template = field(repr=False)


@dataclass(frozen=True, slots=True)
class FormattedPrompt:
    """``system``: the leading system message as the Thinker sees it, or ""; ``complete``: the whole prompt."""

    system: str
    complete: str


class PromptFormatter:
    """Formats the prompts of one engine directory; its template is loaded when a request first needs it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._template: ChatTemplate | None = None

    def format(self, request: OmniRequest) -> FormattedPrompt:
        """The prompt of one request.

        Without the chat template all contents are joined as they stand, without roles and generation prompt, as in
        TensorRT Edge-LLM.

        Raises:
            CheckpointError: the template is missing, damaged, fails, does not end or gives an empty prompt.
            RequestError: the template refuses the messages.
        """
        leading = request.messages[:1] if request.messages[0].role == "system" else ()
        if not request.apply_chat_template:
            return FormattedPrompt(_joined(leading), _joined(request.messages))
        if self._template is None:
            self._template = load_chat_template(self._directory)
        complete = render_chat(self._template, request.messages, request.add_generation_prompt, request.enable_thinking)
        if not complete.strip():
            raise CheckpointError(f"{self._template.path}: the chat template gives an empty prompt; {_COPY}")
        return FormattedPrompt(self._alone(self._template, leading, request.enable_thinking), complete)

    @staticmethod
    def _alone(template: ChatTemplate, leading: Sequence[ChatMessage], enable_thinking: bool | None) -> str:
        """The system message by itself: a report, so a template that wants a user message too gives ""."""
        try:
            return render_chat(template, leading, False, enable_thinking) if leading else ""
        except (CheckpointError, RequestError):
            return ""


def _joined(messages: Sequence[ChatMessage]) -> str:
    return "".join(message.text for message in messages)


def load_chat_template(directory: Path) -> ChatTemplate:
    """The template of ``chat_template.jinja``, else ``chat_template.json``, else ``tokenizer_config.json``.

    Raises:
        CheckpointError: none of them has one, or it is damaged.
    """
    path = directory / TEMPLATE_FILE
    if path.is_file():
        try:
            return _compile(path, path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as fault:
            raise CheckpointError(f"{path}: cannot read the chat template: {fault}") from None
    for name, what in ((LEGACY_FILE, "chat template"), (CONFIG_FILE, "tokenizer config")):
        path = directory / name
        value = read_json(path, CheckpointError, what).get("chat_template") if path.is_file() else None
        if value is not None:
            return _compile(path, _default_of(value, path))
    raise CheckpointError(
        f"{directory}: no chat template in {TEMPLATE_FILE}, {LEGACY_FILE} or {CONFIG_FILE}; "
        "copy it from the published checkpoint, or set apply_chat_template to false"
    )


def _default_of(value: Any, path: Path) -> str:
    """``chat_template`` as JSON files have it: the source, or a list of named ones."""
    if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
        named = {entry.get("name"): entry.get("template") for entry in value}
        if DEFAULT_NAME not in named:
            names = ", ".join(sorted(str(name) for name in named)) or "none"
            raise CheckpointError(
                f"{path}: field 'chat_template' names no template {DEFAULT_NAME!r} (found {names}); {_COPY}"
            )
        value = named[DEFAULT_NAME]
    if not isinstance(value, str):
        raise CheckpointError(
            f"{path}: field 'chat_template' must be a string or a list of named templates, "
            f"found {json.dumps(value)[:60]}; {_COPY}"
        )
    return value


def _compile(path: Path, source: str) -> ChatTemplate:
    try:
        template = compile_template(source)
    except jinja2.TemplateSyntaxError as fault:
        raise CheckpointError(f"{path}: line {fault.lineno}: not a Jinja template: {_line(fault)}; {_COPY}") from None
    except RecursionError:
        raise CheckpointError(f"{path}: the chat template is nested too deeply; {_COPY}") from None
    return ChatTemplate(path, named_special_tokens(path.parent), template)


def render_chat(
    template: ChatTemplate,
    messages: Sequence[ChatMessage],
    add_generation_prompt: bool,
    enable_thinking: bool | None,
) -> str:
    """Render one conversation.

    Args:
        template: from ``load_chat_template``.
        messages: roles and contents, as strings or as lists of text items.
        add_generation_prompt: ask the template to open the assistant's turn.
        enable_thinking: None leaves the name undefined, as in transformers when the caller does not give it.

    Raises:
        CheckpointError: the template fails or does not end; the message names file and line.
        RequestError: the template refuses the messages.
    """
    variables = {
        **template.special_tokens,
        "messages": [message.to_json() for message in messages],
        "tools": None,
        "documents": None,
        "add_generation_prompt": add_generation_prompt,
    }
    if enable_thinking is not None:
        variables["enable_thinking"] = enable_thinking
    try:
        return render(template._compiled, variables)
    except RefusedError as fault:
        raise RequestError(f"{template.path}: the chat template refuses these messages: {_line(fault)}") from None
    except EndlessError as fault:
        raise CheckpointError(f"{template.path}: the chat template does not end: {fault}; {_COPY}") from None
    except Exception as fault:  # a template can make any operation fail
        where = f"{template.path}: line {line_of(fault)}"
        raise CheckpointError(f"{where}: the chat template fails: {type(fault).__name__}: {_line(fault)}") from None


def _line(fault: BaseException) -> str:
    return " ".join(str(fault).split())
