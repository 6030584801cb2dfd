"""The prompt of Qwen3-Omni's Talker as rows of ids: what the user said, and the answer that the Thinker wrote.

Every row is ``text_projection(thinker_embedding[text_id])``, plus ``codec_embedding[codec_id]`` where there is one:

* every user turn of the prompt, from its ``<|im_start|>`` to the next one; system and earlier assistant turns are
  left out;
* nine rows that open the answer: the three ids of ``<|im_start|>assistant\\n``; tts_pad with nothink, think_bos,
  think_eos and the speaker; tts_bos with codec_pad; the answer's first token with codec_bos;
* after the prefill one row per frame: the rest of the answer, then tts_eos, then tts_pad.

The Thinker's last token is never fed back to it, so the reference has no embedding for it. After EOS that is EOS
itself, and the whole answer is spoken; at the token cap it is the answer's last token, which is not spoken.

Text that the prompt already put behind ``<|im_start|>assistant\\n`` (an empty reasoning block, for instance) belongs
to the answer. There transformers 5.24 cuts the end of the answer by as many tokens, because it counts the place of
tts_eos from the end of the prompt; these rows follow the plain rule, like its releases before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cpspec_trt.errors import CheckpointError, RequestError
from cpspec_trt.files.engine_config import OmniTalkerConfig, ThinkerConfig
from cpspec_trt.text.layout import NO_CODEC, ROLE_TOKENS, PromptLayout
from cpspec_trt.text.tokenizer import TextTokenizer


@dataclass(frozen=True, slots=True)
class NothingToSay:
    """The Thinker wrote nothing that can be spoken; ``reason`` is one sentence."""

    reason: str


def check_special_tokens(tokenizer: TextTokenizer, thinker: ThinkerConfig) -> None:
    """Refuse a tokenizer that does not write turns with the ids that the Thinker was trained on.

    Without its special tokens a prompt is ordinary text, and the answer is plausible nonsense.

    Raises:
        CheckpointError: names the directory, the token, both ids and what to do.
    """
    expected = {
        "<|im_start|>": thinker.im_start_token_id,
        "<|im_end|>": thinker.im_end_token_id,
        "system": thinker.system_token_id,
        "user": thinker.user_token_id,
        "assistant": thinker.assistant_token_id,
    }
    for token, known in expected.items():
        found = tokenizer.encode(token)
        if found != [known]:
            written = ", ".join(map(str, found))
            raise CheckpointError(
                f"{tokenizer.directory}: the tokenizer writes {token!r} as {written}, but config.json has {known}; "
                "tokenizer and config do not belong together, or special tokens are missing: build from the "
                "published checkpoint again"
            )


def omni_layout(
    config: OmniTalkerConfig,
    thinker: ThinkerConfig,
    prompt_ids: Sequence[int],
    generated_ids: Sequence[int],
    stopped: bool,
    speaker_id: int,
) -> PromptLayout | NothingToSay:
    """The rows of one Qwen3-Omni answer.

    Args:
        config: of the Talker.
        thinker: of the Thinker, for the ids of roles and of tts_pad, tts_bos and tts_eos.
        prompt_ids: what the Thinker was prompted with.
        generated_ids: what it wrote; an EOS at the end may be given or not.
        stopped: True if it ended by itself, False if it met its token cap.
        speaker_id: codec id, from ``resolve_omni_speaker``.

    Raises:
        RequestError: the prompt does not end in an assistant turn.
    """
    written = list(generated_ids)
    if stopped and written and written[-1] == thinker.im_end_token_id:
        written.pop()
    spoken = written if stopped else written[:-1]
    turns = list(_turns(thinker, prompt_ids))
    if not turns or _role(turns[-1]) != thinker.assistant_token_id:
        raise RequestError(
            "the prompt does not end in an assistant turn that could be spoken; set apply_chat_template and "
            "add_generation_prompt to true, or end the prompt with <|im_start|>assistant"
        )
    answer = [*turns[-1], *spoken]
    if not spoken or len(answer) <= ROLE_TOKENS:
        return NothingToSay(_why_silent(stopped, written))
    users = [token for turn in turns if _role(turn) == thinker.user_token_id for token in turn]
    rows = [(token, NO_CODEC) for token in (*users, *answer[:ROLE_TOKENS])]
    tags = (config.codec_nothink_id, config.codec_think_bos_id, config.codec_think_eos_id, speaker_id)
    rows += [(thinker.tts_pad_token_id, tag) for tag in tags]
    rows.append((thinker.tts_bos_token_id, config.codec_pad_id))
    rows.append((answer[ROLE_TOKENS], config.codec_bos_id))
    text_ids, codec_ids = np.array(rows, dtype=np.int64).T
    trailing = np.array([*answer[ROLE_TOKENS + 1 :], thinker.tts_eos_token_id], np.int64)
    return PromptLayout(np.ascontiguousarray(text_ids), np.ascontiguousarray(codec_ids), trailing)


def _turns(thinker: ThinkerConfig, ids: Sequence[int]) -> Iterator[list[int]]:
    """The prompt cut before every im_start; what stands before the first belongs to nobody."""
    starts = [place for place, token in enumerate(ids) if token == thinker.im_start_token_id]
    for begin, end in pairwise([*starts, len(ids)]):
        yield list(ids[begin:end])


def _role(turn: Sequence[int]) -> int | None:
    return turn[1] if len(turn) > 1 else None


def _why_silent(stopped: bool, written: Sequence[int]) -> str:
    if not stopped and written:
        return "the Thinker met its token cap at the first token, which is never spoken; raise max_generate_length"
    return "the Thinker ended its answer before the first word"
