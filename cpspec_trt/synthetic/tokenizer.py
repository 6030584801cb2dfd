"""The text tokenizer of a synthetic checkpoint: ``vocab.json``, ``merges.txt`` and ``tokenizer_config.json``.

As published there is no ``tokenizer.json``. The merges are learnt here from a few sentences, with ties
broken by spelling, so they never depend on the version of a library.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel

from cpspec_trt.files.atomic import write_text_atomic
from cpspec_trt.files.json_io import write_json_atomic

_ROLES = "user assistant system"  # the prompt layout needs each of them to be one token
_CORPUS = """
hello world how are you today the quick brown fox jumps over the lazy dog and the train leaves at seven
please speak slowly and with a calm warm voice then read the next line of the letter to my friend
今天天气很好 我们去公园散步 你好世界 请慢慢说话 明天见
guten morgen wie geht es dir heute die straße ist schön und groß
buongiorno come stai oggi la città è bella perché c'è il sole
bom dia como você está hoje a manhã não é fria
buenos días cómo estás hoy el niño sueña con mañana
こんにちは 今日はいい天気です ありがとう また明日
안녕하세요 오늘 날씨가 좋아요 감사합니다 내일 봐요
bonjour comment ça va aujourd'hui la forêt est très belle à l'été
доброе утро как дела сегодня погода хорошая завтра увидимся
"""
_ROLE_COUNT = 50
# Bytes that UTF-8 never has. Byte-level BPE writes each of them as the character of the same number.
_IMPOSSIBLE = [chr(byte) for byte in (0xC0, 0xC1, *range(0xF5, 0x100))]

# The added tokens of the published tokenizer, in the order of their ids.
_ADDED_TEXT = """
<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|>
<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>
<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>
<tool_response> </tool_response> <think> </think> <|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos>
<tts_text_eod> <tts_text_bos_single> <|audio_pad|>
"""
_ADDED = tuple(_ADDED_TEXT.split())
_ORDINARY = frozenset(_ADDED[14:26])  # from <tool_call> to </think>: added, but not special


def write_tokenizer(directory: Path, base_size: int) -> dict[str, int]:
    """Write the three files; return every token's id.

    Args:
        directory: where the files go.
        base_size: ids below it are bytes, merges and, when the corpus gives too few merges, fillers
            that no text reaches; the added tokens follow.
    """
    alphabet = sorted(ByteLevel.alphabet())
    merges = learn_merges(base_size - len(alphabet))
    merges += islice(_filler_merges(), base_size - len(alphabet) - len(merges))
    tokens = [*alphabet, *(left + right for left, right in merges)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merges)]
    write_text_atomic(directory / "vocab.json", json.dumps(vocabulary, ensure_ascii=False, separators=(",", ":")))
    write_text_atomic(directory / "merges.txt", "\n".join(lines) + "\n")
    write_json_atomic(directory / "tokenizer_config.json", _tokenizer_config(base_size))
    return vocabulary | {token: base_size + number for number, token in enumerate(_ADDED)}


def learn_merges(limit: int) -> list[tuple[str, str]]:
    """Up to ``limit`` byte-pair merges: at each step the most frequent pair, of equals the first by spelling."""
    words = {tuple(symbols): count for symbols, count in _words().items()}
    merges: list[tuple[str, str]] = []
    while len(merges) < limit:
        pairs: Counter[tuple[str, str]] = Counter()
        for symbols, count in words.items():
            for pair in pairwise(symbols):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = {_merge(symbols, best): count for symbols, count in words.items()}
    return merges


def _filler_merges() -> Iterator[tuple[str, str]]:
    """Endless merges over bytes that no text has: every token of a vocabulary must come from a merge."""
    shorter = _IMPOSSIBLE
    while True:
        yield from ((left, right) for left in shorter for right in _IMPOSSIBLE)
        shorter = [left + right for left in shorter for right in _IMPOSSIBLE]


def _merge(symbols: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    merged: list[str] = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return tuple(merged)


def _words() -> Counter[str]:
    """Each word of the corpus in byte-level spelling, once with and once without a space before it."""
    byte_level = ByteLevel(add_prefix_space=False, use_regex=False)
    words: Counter[str] = Counter()
    for text, count in ((_CORPUS, 1), (_ROLES, _ROLE_COUNT)):
        for word in text.split():
            words[byte_level.pre_tokenize_str(word)[0][0]] += count
            words[byte_level.pre_tokenize_str(" " + word)[0][0]] += 1
    return words


def _tokenizer_config(base_size: int) -> dict[str, Any]:
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(base_size + number): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": token not in _ORDINARY,
            }
            for number, token in enumerate(_ADDED)
        },
        "additional_special_tokens": [token for token in _ADDED[1:] if token not in _ORDINARY],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
