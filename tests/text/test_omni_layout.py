"""Rows of the Omni Talker's prompt, against the rows that transformers adds up."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpspec_trt.errors import CheckpointError, RequestError
from cpspec_trt.files.engine_config import OmniTalkerConfig, ThinkerConfig
from cpspec_trt.files.omni_requests import read_omni_requests
from cpspec_trt.text.chat_template import PromptFormatter
from cpspec_trt.text.layout import PromptLayout
from cpspec_trt.text.omni_layout import NothingToSay, check_special_tokens, omni_layout
from cpspec_trt.text.tokenizer import TextTokenizer, load_tokenizer
from cpspec_trt.text.voices import resolve_omni_speaker

MakeTalker = Callable[..., OmniTalkerConfig]
DATA = Path(__file__).parent / "data"
FIELDS = ("text_ids", "codec_ids", "trailing")


def layout_of(case: dict[str, Any], talker: OmniTalkerConfig, thinker: ThinkerConfig) -> PromptLayout | NothingToSay:
    _, speaker_id = resolve_omni_speaker(talker, case["speaker"])
    return omni_layout(talker, thinker, case["prompt_ids"], case["generated_ids"], case["stopped"], speaker_id)


def test_every_row_equals_the_row_that_the_reference_adds_up(
    omni_goldens: dict[str, Any], omni_talker: MakeTalker, omni_thinker: ThinkerConfig
) -> None:
    cases = [case for case in omni_goldens["cases"] if "crash" not in case and "opened" not in case]
    assert {case["speaker"].lower() for case in cases} == {"chelsie", "ethan", "aiden"}
    assert {case["stopped"] for case in cases} == {True, False}
    assert max(len(case["messages"]) for case in cases) == 6
    for case in cases:
        layout = layout_of(case, omni_talker(), omni_thinker)
        assert isinstance(layout, PromptLayout)
        for name in FIELDS:
            found = getattr(layout, name)
            assert found.dtype == np.int64
            assert found.tolist() == case[name], (name, case)


def test_a_tokenizer_that_writes_turns_as_the_thinker_knows_them_passes(
    published_tokenizer: TextTokenizer, omni_thinker: ThinkerConfig
) -> None:
    check_special_tokens(published_tokenizer, omni_thinker)


@pytest.mark.parametrize("token", ["<|im_start|>", "<|im_end|>", "system", "user", "assistant"])
def test_a_tokenizer_with_another_id_for_a_turns_token_is_refused_by_name(
    published_tokenizer: TextTokenizer, omni_thinker: ThinkerConfig, token: str
) -> None:
    field = {"<|im_start|>": "im_start_token_id", "<|im_end|>": "im_end_token_id"}.get(token, f"{token}_token_id")
    (known,) = published_tokenizer.encode(token)
    with pytest.raises(CheckpointError, match=rf"writes '{re.escape(token)}' as {known}, but config.json has 7;"):
        check_special_tokens(published_tokenizer, replace(omni_thinker, **{field: 7}))


def test_a_tokenizer_without_its_special_tokens_is_refused(
    tokenizer_directory: Callable[[str], Path], omni_thinker: ThinkerConfig
) -> None:
    directory = tokenizer_directory("published")
    path = directory / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"added_tokens_decoder": {}}))
    with pytest.raises(
        CheckpointError, match=r"published: the tokenizer writes '<\|im_start\|>' as \d+, .* build from"
    ):
        check_special_tokens(load_tokenizer(directory), omni_thinker)


def test_the_prompt_of_a_request_is_the_one_of_the_goldens(
    omni_goldens: dict[str, Any], published_tokenizer: TextTokenizer, tmp_path: Path
) -> None:
    source = (DATA / "chat" / omni_goldens["template"]).read_text(encoding="utf-8")
    (tmp_path / "chat_template.jinja").write_text(source, encoding="utf-8")
    formatter = PromptFormatter(tmp_path)
    for case in omni_goldens["cases"]:
        (tmp_path / "input.json").write_text(json.dumps({"requests": [{"messages": case["messages"]}]}))
        (request,) = read_omni_requests(tmp_path / "input.json", strict=True).requests
        prompt = formatter.format(request).complete + case.get("opened", "")
        assert published_tokenizer.encode(prompt) == case["prompt_ids"]


def test_an_answer_that_crashes_the_reference_is_nothing_to_say(
    omni_goldens: dict[str, Any], omni_talker: MakeTalker, omni_thinker: ThinkerConfig
) -> None:
    cases = [case for case in omni_goldens["cases"] if "crash" in case]
    assert [(case["answer"], case["stopped"]) for case in cases] == [("x", False), ("", True)]
    at_the_cap, at_once = (layout_of(case, omni_talker(), omni_thinker) for case in cases)
    assert at_the_cap == NothingToSay(
        "the Thinker met its token cap at the first token, which is never spoken; raise max_generate_length"
    )
    assert at_once == NothingToSay("the Thinker ended its answer before the first word")


def test_text_that_the_prompt_puts_into_the_answer_is_spoken_first_and_costs_no_words_at_the_end(
    omni_goldens: dict[str, Any], omni_talker: MakeTalker, omni_thinker: ThinkerConfig
) -> None:
    (case,) = (case for case in omni_goldens["cases"] if "opened" in case)
    layout = layout_of(case, omni_talker(), omni_thinker)
    assert isinstance(layout, PromptLayout)
    assert layout.text_ids.tolist() == case["text_ids"]
    assert layout.codec_ids.tolist() == case["codec_ids"]
    opened, answer = case["prompt_ids"][-4:], case["generated_ids"][:-1]
    assert layout.trailing.tolist() == [*opened[1:], *answer, omni_thinker.tts_eos_token_id]
    # transformers 5.24 overwrites the end: tts_eos stands len(opened) - 1 places too early, then tts_pad.
    lost = len(opened) - 1
    assert case["trailing"][: -lost - 1] == layout.trailing.tolist()[: -lost - 1]
    assert case["trailing"][-lost - 1 :] == [omni_thinker.tts_eos_token_id] + [omni_thinker.tts_pad_token_id] * lost


def test_a_closing_eos_may_be_left_out(
    omni_goldens: dict[str, Any], omni_talker: MakeTalker, omni_thinker: ThinkerConfig
) -> None:
    for case in omni_goldens["cases"]:
        if case["stopped"]:
            given = layout_of(case, omni_talker(), omni_thinker)
            without = layout_of({**case, "generated_ids": case["generated_ids"][:-1]}, omni_talker(), omni_thinker)
            if isinstance(given, NothingToSay):
                assert without == given
            else:
                assert isinstance(without, PromptLayout)
                assert all(np.array_equal(getattr(given, name), getattr(without, name)) for name in FIELDS)


def test_an_answer_of_no_token_at_all_is_nothing_to_say(omni_talker: MakeTalker, omni_thinker: ThinkerConfig) -> None:
    opening = [omni_thinker.im_start_token_id, omni_thinker.assistant_token_id, 198]
    for stopped in (True, False):
        found = omni_layout(omni_talker(), omni_thinker, opening, [], stopped, 301)
        assert found == NothingToSay("the Thinker ended its answer before the first word")


def test_a_prompt_without_a_user_still_speaks_the_answer(omni_talker: MakeTalker, omni_thinker: ThinkerConfig) -> None:
    opening = [omni_thinker.im_start_token_id, omni_thinker.assistant_token_id, 198]
    layout = omni_layout(omni_talker(), omni_thinker, [5, 6, *opening], [10, 11], True, 301)
    assert isinstance(layout, PromptLayout)
    assert layout.text_ids.shape == layout.codec_ids.shape == (9,)
    assert layout.text_ids.tolist()[:3] == opening
    assert layout.trailing.tolist() == [11, omni_thinker.tts_eos_token_id]


@pytest.mark.parametrize("ending", [[], [390], [390, 198, 7, 8], [391, 198, 7]])
def test_a_prompt_that_does_not_end_in_an_assistant_turn_is_refused_with_the_remedy(
    ending: list[int], omni_talker: MakeTalker, omni_thinker: ThinkerConfig
) -> None:
    start = omni_thinker.im_start_token_id
    prompt = [start, omni_thinker.assistant_token_id, 198, 9, start, *ending]
    with pytest.raises(
        RequestError, match=r"does not end in an assistant turn .* set apply_chat_template and add_gener"
    ):
        omni_layout(omni_talker(), omni_thinker, prompt, [10, 11], True, 301)


def test_a_prompt_without_any_turn_is_refused(omni_talker: MakeTalker, omni_thinker: ThinkerConfig) -> None:
    with pytest.raises(RequestError, match="does not end in an assistant turn"):
        omni_layout(omni_talker(), omni_thinker, [5, 6, 7], [10, 11], True, 301)
