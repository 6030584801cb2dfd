from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cpspec_trt.errors import CheckpointError, RequestError
from cpspec_trt.files.engine_config import TalkerConfig
from cpspec_trt.text.layout import PromptLayout, tts_layout
from cpspec_trt.text.tokenizer import TextTokenizer
from cpspec_trt.text.voices import Voice, resolve_voice

MakeConfig = Callable[..., TalkerConfig]


def layout_of(tokenizer: TextTokenizer, config: TalkerConfig, case: dict[str, Any]) -> PromptLayout:
    voice = resolve_voice(config, case.get("speaker", ""), case.get("language", ""), case.get("instruct", ""))
    return tts_layout(tokenizer, config, case["text"], voice, case["non_streaming"])


def test_every_prompt_row_equals_the_row_that_the_reference_wrapper_adds_up(
    layout_goldens: dict[str, Any], published_tokenizer: TextTokenizer, talker_config: MakeConfig
) -> None:
    cases = layout_goldens["cases"]
    assert {case["model_type"] for case in cases} == {"custom_voice", "voice_design"}
    for case in cases:
        config = talker_config(case["model_type"], case["model_size"])
        layout = layout_of(published_tokenizer, config, case)
        for name in ("text_ids", "codec_ids", "trailing"):
            found = getattr(layout, name)
            assert found.dtype == np.int64
            assert found.tolist() == case[name], (name, case)


def test_the_prompt_has_nine_prefix_rows_with_a_language_and_eight_without(
    published_tokenizer: TextTokenizer, talker_config: MakeConfig
) -> None:
    # Three role rows, the tags, the speaker, the start row; then text, tts_eos and the last row.
    words = published_tokenizer.encode("hello there")
    for language, prefix in (("english", 9), ("auto", 8)):
        voice = resolve_voice(talker_config(), "ryan", language, "")
        layout = tts_layout(published_tokenizer, talker_config(), "hello there", voice, non_streaming=True)
        assert layout.text_ids.shape == layout.codec_ids.shape == (prefix + len(words) + 2,)


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u3000\u00a0"])
def test_text_without_a_visible_character_is_refused(
    text: str, published_tokenizer: TextTokenizer, talker_config: MakeConfig
) -> None:
    with pytest.raises(RequestError, match=r"text to speak is empty or whitespace .* write at least one word"):
        tts_layout(published_tokenizer, talker_config(), text, Voice(300, None, "", ()), non_streaming=True)


@pytest.mark.parametrize(("text", "instruct"), [("half \ud83d pair", ""), ("fine", "half \ude42 pair")])
def test_half_of_a_surrogate_pair_is_named_instead_of_a_type_error(
    text: str, instruct: str, published_tokenizer: TextTokenizer, talker_config: MakeConfig
) -> None:
    with pytest.raises(RequestError, match=r"half of a surrogate pair \('\\ud"):
        tts_layout(published_tokenizer, talker_config(), text, Voice(300, None, instruct, ()), non_streaming=True)


@pytest.mark.parametrize("field", ["im_start_token_id", "im_end_token_id", "assistant_token_id"])
def test_a_tokenizer_of_another_checkpoint_is_noticed_by_the_template_ids(
    field: str, published_tokenizer: TextTokenizer, talker_config: MakeConfig
) -> None:
    config = talker_config(**{field: 7})
    with pytest.raises(CheckpointError, match=r"the tokenizer writes the chat template as .*has .*\b7\b"):
        tts_layout(published_tokenizer, config, "hello", Voice(300, None, "", ()), non_streaming=True)


def test_an_id_beyond_the_text_embedding_is_an_error_before_any_lookup(
    published_tokenizer: TextTokenizer, talker_config: MakeConfig
) -> None:
    config = talker_config(text_vocab_size=100)
    with pytest.raises(CheckpointError, match=r"gives id \d+, but the text embedding has 100 rows"):
        tts_layout(published_tokenizer, config, "hello", Voice(300, None, "", ()), non_streaming=True)
