"""The Talker's prompt as rows of ids.

Every prefill row is ``text_projection(text_embedding[text_id])``, plus ``codec_embedding[codec_id]`` where there is
one. After the prefill, the input of each frame also carries one text row: the trailing rows first, then tts_pad.

The text is tokenised inside the chat template, so that tokens at its borders come out as the model saw them in
training; the parts are then cut out by position, as in qwen-tts:

* the first three ids are the role. A text that starts with newlines may share the third of them with the template
  (``\\n\\n`` is one token): that row then carries the merged token.
* the last five ids close the template and are dropped.

Special tokens that stand in the text are not filtered: like in qwen-tts each becomes one text row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cpspec_trt.errors import CheckpointError, RequestError
from cpspec_trt.files.engine_config import TalkerConfig
from cpspec_trt.text.tokenizer import TextTokenizer
from cpspec_trt.text.voices import Voice

NO_CODEC = -1
ROLE_TOKENS = 3
CLOSING_TOKENS = 5


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """One request's prompt.

    Attributes:
        text_ids: int64 [P], a text token id per prefill row.
        codec_ids: int64 [P], a codec id per prefill row, or ``NO_CODEC`` for a row without codec term.
        trailing: int64 [N], the text id added to frame t for t < N; later frames add tts_pad.
    """

    text_ids: NDArray[np.int64]
    codec_ids: NDArray[np.int64]
    trailing: NDArray[np.int64]


def tts_layout(
    tokenizer: TextTokenizer, config: TalkerConfig, text: str, voice: Voice, non_streaming: bool
) -> PromptLayout:
    """The rows of one Qwen3-TTS request: instruct, role, codec tags with the speaker, start, text.

    Args:
        text: what to say; must hold something besides whitespace.
        voice: from ``resolve_voice``; its instruct is the one that counts.
        non_streaming: True puts the whole text into the prefill, False one token, the others one per frame.

    Raises:
        RequestError: the text is empty, or text or instruct cannot be written as UTF-8.
        CheckpointError: the tokenizer's ids do not fit the Talker's config.
    """
    if not text.strip():
        raise RequestError(f"the text to speak is empty or whitespace ({text!r:.40}); write at least one word")
    instruct = _encode(tokenizer, f"<|im_start|>user\n{voice.instruct}<|im_end|>\n", config) if voice.instruct else []
    role, spoken = _spoken(tokenizer, config, text)
    rows = [(token, NO_CODEC) for token in (*instruct, *role)]
    rows += [(config.tts_pad_token_id, tag) for tag in _tags(config, voice)]
    rows.append((config.tts_bos_token_id, config.codec_pad_id))
    if non_streaming:
        rows += [(token, config.codec_pad_id) for token in (*spoken, config.tts_eos_token_id)]
        rows.append((config.tts_pad_token_id, config.codec_bos_id))
        trailing = [config.tts_pad_token_id]
    else:
        rows.append((spoken[0], config.codec_bos_id))
        trailing = [*spoken[1:], config.tts_eos_token_id]
    text_ids, codec_ids = np.array(rows, dtype=np.int64).T
    return PromptLayout(np.ascontiguousarray(text_ids), np.ascontiguousarray(codec_ids), np.array(trailing, np.int64))


def _tags(config: TalkerConfig, voice: Voice) -> list[int]:
    """Codec ids between the role and the start row: the language tags, then the speaker if there is one."""
    opening = [config.codec_nothink_id, config.codec_think_bos_id]
    if voice.language_id is not None:
        opening = [config.codec_think_id, config.codec_think_bos_id, voice.language_id]
    speaker = [] if voice.speaker_id is None else [voice.speaker_id]
    return [*opening, config.codec_think_eos_id, *speaker]


def _spoken(tokenizer: TextTokenizer, config: TalkerConfig, text: str) -> tuple[Sequence[int], Sequence[int]]:
    """Role ids [3] and text ids [≥ 1] of the template ``assistant: text, assistant:``."""
    template = f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n"
    ids = _encode(tokenizer, template, config)
    role, spoken, closing = ids[:ROLE_TOKENS], ids[ROLE_TOKENS:-CLOSING_TOKENS], ids[-CLOSING_TOKENS:]
    start, end = config.im_start_token_id, config.im_end_token_id
    newline = closing[-1]
    fits = closing == [end, newline, start, config.assistant_token_id, newline]
    if role[:2] != [start, config.assistant_token_id] or not fits or not spoken:
        raise CheckpointError(
            f"{tokenizer.directory}: the tokenizer writes the chat template as {role} … {closing}, but config.json "
            f"has im_start {start}, im_end {end}, assistant {config.assistant_token_id}; "
            "tokenizer and config do not belong together, export the checkpoint again"
        )
    return role, spoken


def _encode(tokenizer: TextTokenizer, text: str, config: TalkerConfig) -> list[int]:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as fault:
        raise RequestError(
            f"the text holds half of a surrogate pair ({text[fault.start]!r}), which is no character; "
            "write the whole character, as UTF-8 or as both \\u escapes"
        ) from None
    ids = tokenizer.encode(text)
    if max(ids) >= config.text_vocab_size:
        raise CheckpointError(
            f"{tokenizer.directory}: the tokenizer gives id {max(ids)}, but the text embedding has "
            f"{config.text_vocab_size} rows (text_vocab_size); tokenizer and config do not belong together"
        )
    return ids
