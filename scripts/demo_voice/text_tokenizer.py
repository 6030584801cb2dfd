"""The checkpoint's text tokenizer: Qwen2's byte-level BPE, trained so that every word of the domain is one token."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen2TokenizerFast

from . import grammar, layout

# Qwen2's split pattern.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def domain_words() -> list[str]:
    """Every form in which a word occurs: after a space, at the start of a text, and capitalised."""
    words, first_words = grammar.vocabulary()
    return [
        *("assistant", "user", "system"),
        *(" " + word for word in words),
        *first_words,
        *(word.capitalize() for word in first_words),
        *(" " + word.capitalize() for word in grammar.DAYS + grammar.MONTHS),
        *(" I", "I"),
    ]


def build_tokenizer(path: Path) -> PreTrainedTokenizerBase:
    """Train the tokenizer, save it under `path` in the published file layout and load it from there."""
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    words = domain_words()
    trainer = trainers.BpeTrainer(
        vocab_size=6000,
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[],
        show_progress=False,
    )
    bpe.train_from_iterator([word for word in words for _ in range(3)], trainer)
    bpe.add_special_tokens(layout.SPECIAL_TOKENS)

    fast = Qwen2TokenizerFast(
        tokenizer_object=bpe,
        eos_token=layout.IM_END,
        pad_token=layout.END_OF_TEXT,
        unk_token=None,
        bos_token=None,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.add_special_tokens({"additional_special_tokens": layout.SPECIAL_TOKENS})
    path.mkdir(parents=True, exist_ok=True)
    fast.save_pretrained(path)

    loaded = AutoTokenizer.from_pretrained(path)
    split = [word for word in words if len(loaded(word)["input_ids"]) != 1]
    if split:
        raise SystemExit(f"these words are more than one token each: {split}")
    return loaded
