"""Chat templates: rendered as transformers renders them, found where checkpoints keep them, refused in clear words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.errors import CheckpointError, RequestError
from cpspec_trt.files.omni_requests import ChatMessage, OmniRequest, read_omni_requests
from cpspec_trt.text.chat_template import FormattedPrompt, PromptFormatter, load_chat_template, render_chat
from cpspec_trt.text.tokenizer import TextTokenizer

DATA = Path(__file__).parent / "data"
GOLDENS = json.loads((DATA / "chat_goldens.json").read_text(encoding="utf-8"))["cases"]
HELLO = (ChatMessage("user", "Hello."),)
TOKENS = {"eos_token": "<|im_end|>", "pad_token": {"content": "<|endoftext|>"}, "bos_token": None}


def messages_of(case: dict[str, Any]) -> tuple[ChatMessage, ...]:
    return tuple(
        ChatMessage(
            each["role"],
            each["content"] if isinstance(each["content"], str) else tuple(item["text"] for item in each["content"]),
        )
        for each in case["messages"]
    )


def directory_with(
    directory: Path, jinja: str | None = None, legacy: Any = None, config: Any = None, **tokens: Any
) -> Path:
    """An engine directory whose files hold the given templates."""
    directory.mkdir(exist_ok=True)
    if jinja is not None:
        (directory / "chat_template.jinja").write_text(jinja, encoding="utf-8")
    if legacy is not None:
        (directory / "chat_template.json").write_text(json.dumps({"chat_template": legacy}))
    if config is not None:
        tokens = {**tokens, "chat_template": config}
    (directory / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": {}, **tokens}))
    return directory


def request(*messages: tuple[str, Any], directory: Path, **fields: Any) -> OmniRequest:
    path = directory / "input.json"
    path.write_text(
        json.dumps({"requests": [{"messages": [{"role": role, "content": text} for role, text in messages], **fields}]})
    )
    return read_omni_requests(path, strict=True).requests[0]


@pytest.mark.parametrize("name", ["plain.jinja", "omni_style.jinja", "features.jinja"])
def test_every_conversation_is_rendered_as_transformers_renders_it(
    name: str, tmp_path: Path, published_tokenizer: TextTokenizer
) -> None:
    source = (DATA / "chat" / name).read_text(encoding="utf-8")
    template = load_chat_template(directory_with(tmp_path / "engine", jinja=source, **TOKENS))
    cases = [case for case in GOLDENS if case["template"] == name]
    assert len(cases) == 21
    for case in cases:
        messages = messages_of(case)
        if "refusal" in case:
            with pytest.raises(RequestError) as caught:
                render_chat(template, messages, case["prompt"], case["thinking"])
            assert str(caught.value).endswith(f"the chat template refuses these messages: {case['refusal']}")
            continue
        text = render_chat(template, messages, case["prompt"], case["thinking"])
        assert text == case["text"], case
        if "ids" in case:
            assert published_tokenizer.encode(text) == case["ids"]


def test_the_template_comes_from_the_jinja_file_then_the_legacy_file_then_the_config(tmp_path: Path) -> None:
    for given, expected in (
        ({"jinja": "one", "legacy": "two", "config": "three"}, "one"),
        ({"legacy": "two", "config": "three"}, "two"),
        ({"config": "three"}, "three"),
        ({"config": [{"name": "tool_use", "template": "four"}, {"name": "default", "template": "five"}]}, "five"),
        ({"legacy": [{"name": "default", "template": "six"}]}, "six"),
    ):
        template = load_chat_template(directory_with(tmp_path / expected, **given))
        assert render_chat(template, HELLO, True, None) == expected


def test_special_tokens_reach_the_template_by_name(tmp_path: Path) -> None:
    source = "{{ eos_token }}{{ pad_token }}{{ bos_token is defined }}"
    template = load_chat_template(directory_with(tmp_path, jinja=source, **TOKENS))
    assert render_chat(template, HELLO, True, None) == "<|im_end|><|endoftext|>False"


def test_a_directory_without_any_template_names_the_three_places(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        load_chat_template(directory_with(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path}: no chat template in chat_template.jinja, chat_template.json or tokenizer_config.json; "
        "copy it from the published checkpoint, or set apply_chat_template to false"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"jinja": "a\n{% for %}"}, r"chat_template\.jinja: line 2: not a Jinja template: .*; copy the file from"),
        ({"jinja": "{{ " + "(" * 3000 + ")" * 3000 + " }}"}, r"chat_template\.jinja: .* is nested too deeply"),
        ({"legacy": 5}, r"chat_template\.json: field 'chat_template' must be a string or a list .*, found 5;"),
        ({"legacy": ["a"]}, r"chat_template\.json: field 'chat_template' must be a string or a list "),
        (
            {"config": [{"name": "tool_use", "template": "x"}]},
            r"config\.json: .* no template 'default' \(found tool_use",
        ),
        ({"config": []}, r"config\.json: .* names no template 'default' \(found none\)"),
        ({"config": [{"name": "default"}]}, r"config\.json: field 'chat_template' must be a string .*, found null"),
        ({"jinja": "x", "eos_token": 5}, r"tokenizer_config\.json: an added token needs a non-empty text"),
    ],
)
def test_a_damaged_template_is_named_with_its_file(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        load_chat_template(directory_with(tmp_path, **given))
    assert len(str(caught.value).splitlines()) == 1


def test_a_template_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (directory_with(tmp_path) / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja: cannot read the chat template"):
        load_chat_template(tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a\n\n{{ messages[7].role }}", r"line 3: the chat template fails: UndefinedError: "),
        ("{% macro f(x) %}\n{{ x + 1 }}{% endmacro %}{{ f('a') }}", r"line 2: the chat template fails: TypeError: "),
        ("{{ messages.append(1) }}", r"line 1: the chat template fails: SecurityError: "),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", r"does not end: it takes m"),
    ],
)
def test_a_template_that_fails_is_named_with_file_line_and_fault(tmp_path: Path, source: str, message: str) -> None:
    template = load_chat_template(directory_with(tmp_path, jinja=source))
    with pytest.raises(CheckpointError, match=rf"chat_template\.jinja: .*{message}") as caught:
        render_chat(template, HELLO, True, None)
    assert len(str(caught.value).splitlines()) == 1


def test_what_a_template_refuses_is_the_requests_fault(tmp_path: Path) -> None:
    template = load_chat_template(directory_with(tmp_path, jinja="{{ raise_exception('roles must\nalternate') }}"))
    with pytest.raises(RequestError, match=r"the chat template refuses these messages: roles must alternate$"):
        render_chat(template, HELLO, True, None)


def test_a_template_may_not_change_the_messages(tmp_path: Path) -> None:
    template = load_chat_template(directory_with(tmp_path, jinja="{{ messages[0].update(role='x') }}"))
    with pytest.raises(CheckpointError, match="SecurityError"):
        render_chat(template, HELLO, True, None)


def test_a_formatted_request_has_the_system_message_alone_and_the_whole_prompt(tmp_path: Path) -> None:
    source = (DATA / "chat" / "omni_style.jinja").read_text(encoding="utf-8")
    formatter = PromptFormatter(directory_with(tmp_path, jinja=source))
    found = formatter.format(request(("system", "Be brief."), ("user", "Hello."), directory=tmp_path))
    assert found == FormattedPrompt(
        system="<|im_start|>system\nBe brief.<|im_end|>\n",
        complete="<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello.<|im_end|>\n<|im_start|>assistant\n",
    )
    without = formatter.format(request(("user", "Hello."), directory=tmp_path, add_generation_prompt=False))
    assert without == FormattedPrompt(system="", complete="<|im_start|>user\nHello.<|im_end|>\n")


def test_enable_thinking_reaches_the_template_only_if_the_request_gives_it(tmp_path: Path) -> None:
    source = "{{ enable_thinking is defined }} {{ enable_thinking }}"
    formatter = PromptFormatter(directory_with(tmp_path, jinja=source))
    for fields, expected in (
        ({}, "False "),
        ({"enable_thinking": False}, "True False"),
        ({"enable_thinking": True}, "True True"),
    ):
        assert formatter.format(request(("user", "x"), directory=tmp_path, **fields)).complete == expected


def test_without_the_chat_template_contents_are_joined_as_they_stand_and_no_template_is_needed(tmp_path: Path) -> None:
    items = [{"type": "text", "text": "a "}, {"type": "text", "text": "b\n"}]
    asked = request(
        ("system", "Sys. "), ("user", items), ("assistant", "c"), directory=tmp_path, apply_chat_template=False
    )
    formatter = PromptFormatter(directory_with(tmp_path / "empty"))
    assert formatter.format(asked) == FormattedPrompt(system="Sys. ", complete="Sys. a b\nc")
    with pytest.raises(CheckpointError, match="no chat template"):
        formatter.format(request(("user", "x"), directory=tmp_path))


def test_a_template_that_cannot_render_a_lone_system_message_reports_none(tmp_path: Path) -> None:
    source = (DATA / "chat" / "features.jinja").read_text(encoding="utf-8")
    formatter = PromptFormatter(directory_with(tmp_path, jinja=source, **TOKENS))
    found = formatter.format(request(("system", "Be brief."), ("user", "Hello."), directory=tmp_path))
    assert found.system == ""
    assert "Hello." in found.complete


def test_an_empty_prompt_is_an_error(tmp_path: Path) -> None:
    formatter = PromptFormatter(directory_with(tmp_path, jinja="{% if false %}x{% endif %}\n"))
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja: the chat template gives an empty prompt"):
        formatter.format(request(("user", "x"), directory=tmp_path))
