"""Messages of the Python face, checked like those of a request file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cpspec_trt.errors import RequestError
from cpspec_trt.files.omni_requests import ChatMessage

ROLES = ("system", "user", "assistant")


def chat_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[ChatMessage, ...]:
    """Dictionaries to messages.

    Raises:
        RequestError: no message, an unknown role, or content that is not text; names the message and field.
    """
    if not messages:
        raise RequestError("messages is empty; give at least one with role 'user'")
    return tuple(_message(number, message) for number, message in enumerate(messages))


def _message(number: int, message: Mapping[str, Any]) -> ChatMessage:
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise RequestError(f"messages[{number}].role is {role!r:.40}; use one of {', '.join(ROLES)}")
    if isinstance(content, str):
        found: str | tuple[str, ...] = content
    elif isinstance(content, Sequence):
        found = tuple(_text(f"messages[{number}].content[{place}]", item) for place, item in enumerate(content))
    else:
        raise RequestError(f"messages[{number}].content is {content!r:.40}; give a string or a list of text items")
    result = ChatMessage(role, found)
    if role == "user" and not result.text.strip():
        raise RequestError(f"messages[{number}].content is {content!r:.40}; write what the user says")
    return result


def _text(where: str, item: Any) -> str:
    if isinstance(item, Mapping) and item.get("type") == "text" and isinstance(item.get("text"), str):
        return str(item["text"])
    raise RequestError(f'{where} is {item!r:.60}; only {{"type": "text", "text": …}} is supported')
