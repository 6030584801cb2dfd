"""The chat template of synthetic checkpoints, rendered by jinja2 with the settings chat templates are written for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cpspec_trt.synthetic.chat_template import write_chat_template


@pytest.fixture
def template(tmp_path: Path) -> str:
    write_chat_template(tmp_path, "published")
    text: str = json.loads((tmp_path / "chat_template.json").read_text(encoding="utf-8"))["chat_template"]
    return text


def _render(template: str, messages: list[dict[str, Any]], **values: Any) -> str:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=messages, **values)


def test_messages_are_framed_one_after_another(template: str) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be calm."},
        {"role": "user", "content": "  Hello\n"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": [{"type": "text", "text": "And"}, {"type": "text", "text": " now?"}]},
    ]
    framed = (
        "<|im_start|>system\nBe calm.<|im_end|>\n"
        "<|im_start|>user\n  Hello\n<|im_end|>\n"
        "<|im_start|>assistant\nHi<|im_end|>\n"
        "<|im_start|>user\nAnd now?<|im_end|>\n"
    )
    assert _render(template, messages) == framed
    assert _render(template, messages, add_generation_prompt=True) == framed + "<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("kind", "placeholder"),
    [
        ("image", "<|vision_start|><|image_pad|><|vision_end|>"),
        ("video", "<|vision_start|><|video_pad|><|vision_end|>"),
        ("audio", "<|audio_start|><|audio_pad|><|audio_end|>"),
    ],
)
def test_media_become_their_placeholders(kind: str, placeholder: str, template: str) -> None:
    messages = [{"role": "user", "content": [{"type": kind, kind: "file"}, {"type": "text", "text": "What is it?"}]}]
    assert _render(template, messages) == f"<|im_start|>user\n{placeholder}What is it?<|im_end|>\n"


def test_only_the_reasoning_of_earlier_answers_is_dropped(template: str) -> None:
    answer = {"role": "assistant", "content": "<think>\nwell\n</think>\n\nYes"}
    question = {"role": "user", "content": "Really?"}
    assert "<|im_start|>assistant\nYes<|im_end|>" in _render(template, [question, answer, question])
    assert "<think>\nwell\n</think>\n\nYes<|im_end|>" in _render(template, [question, answer])


@pytest.mark.parametrize(
    ("values", "block"),
    [({}, ""), ({"enable_thinking": True}, ""), ({"enable_thinking": False}, "<think>\n\n</think>\n\n")],
)
def test_thinking_is_left_to_the_model_unless_it_is_forbidden(
    values: dict[str, bool], block: str, template: str
) -> None:
    prompt = _render(template, [], add_generation_prompt=True, **values)
    assert prompt == f"<|im_start|>assistant\n{block}"


def test_both_styles_hold_the_same_template(template: str, tmp_path: Path) -> None:
    write_chat_template(tmp_path, "transformers_5")
    assert (tmp_path / "chat_template.jinja").read_text(encoding="utf-8") == template
