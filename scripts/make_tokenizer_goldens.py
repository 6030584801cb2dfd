"""Write the tokenizer assets and goldens of tests/text with the PyTorch-side tokenizers.

Run it in the reference environment (transformers 4.57.3), from the repository root:

    python scripts/make_tokenizer_goldens.py

It trains a small byte-level BPE on tests/text/data/corpus.txt, writes it in the layouts that the tests load,
and records the ids of transformers' Qwen2TokenizerFast and of its pure Python Qwen2Tokenizer.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer, Qwen2TokenizerFast
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

DATA = Path(__file__).resolve().parent.parent / "tests" / "text" / "data"
MERGES = 2000
SMALL_MERGES = 300
CONTROLS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
]

TEXTS = [
    # one or two sentences for each supported language, none of them in the corpus
    "你好，世界！今天的会议改到星期五下午两点半，地点不变。",
    'Hello world, how are you today? She said: "We\'ll see."',
    "Schöne Grüße aus Österreich! Das Übungsheft kostet 3,50 €.",
    "Così è la vita: più caffè, meno perché.",
    "Amanhã vão à praia; não há pão nem maçãs.",
    "¿Cuántos años tiene el pingüino? ¡Ninguno lo sabía!",
    "東京の天気は晴れ、気温は２５度です。ガギグゲゴ、パピプペポ。",
    "안녕하세요, 오늘 서울의 날씨는 어떻습니까?",
    "Où est l'œuvre d'Éloïse ? À Noël, ça va être génial…",
    "Съешь ещё этих мягких французских булок, да выпей чаю.",
    # contractions in every case, apostrophes that are not ASCII
    "it's IT'S I'm I'M they're THEY'RE we've WE'LL he'd don't can't o'clock 'twas it’s ſ's",
    "McDonald GitHub iPhone eBay HTMLParser camelCase snake_case kebab-case",
    # digits
    "0 12 345 6789 1,000,000 3.14159 ½ ² Ⅷ ٣٤٥ １２３ 10^6 0x1F 2024-01-31T23:59:59Z +49 (0)30 123456",
    # emoji: astral, variation selector, joined family, flag, skin tone, keycap
    "🙂 ❤️ 👨‍👩‍👧‍👦 🇩🇪 👍🏽 1️⃣🎉🎉🎉",
    # combining characters: decomposed Latin, several marks, Hangul letters, kana with marks, compatibility forms
    "e\u0301te\u0301 Cafe\u0301 A\u030angstro\u0308m u\u0308ber n\u0303 c\u0327",
    "o\u0302\u0323 o\u0323\u0302 q\u0307\u0323 e\u0301\u0301 \u0301leading",
    "\u1112\u1161\u11ab\u1100\u1173\u11af \u304b\u3099\u306f\u309a",
    "\ufb01 \u2126 \u212b \u00c5 \u1e9b\u0323 \uff76\uff9e",
    # scripts outside the ten languages, with vowel signs
    "สวัสดีครับ नमस्ते दुनिया العربية עִבְרִית Ελληνικά ქართული",
    # whitespace and newlines
    "",
    " ",
    "   ",
    "\n",
    "\n\n\n",
    "\t",
    "  leading and trailing  ",
    "a  b   c    d",
    "tab\tand\t\ttabs \t mixed",
    "line one\nline two\n\nline four\n\n\n\nline eight",
    "windows\r\nlines\r\n\r\nand a lone\rreturn",
    "spaces before   \n   newline \n\n  and after",
    "a\u00a0b\u3000c\u2003d\u200be\ufefff\u0085g\u2028h\x0bi\x0cj",
    "trailing newline\n",
    "\n leading newline",
    # punctuation runs that swallow newlines, symbols, control characters
    "wait...\n\nwhat?!\r\n--- *** $$$ %% && @user #tag [x](y) {z} ~` |\\/",
    "«Guillemets» „Anführung“ “quotes” 「括弧」（全角）、。・…—–-",
    "nul \x00 bell \x07 escape \x1b delete \x7f",
    # the templates of the model, and special tokens inside text
    "<|im_start|>assistant\nHello there.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nSpeak slowly, 很慢。<|im_end|>\n",
    "before<|im_end|>after <|im_end|> spaced <|im_start|><|im_start|>twice",
    "<tts_pad><tts_text_bos>text<tts_text_eod> <|endoftext|>",
    "a <|named_only|> token",
    "almost: <|im_end| > < |im_end|> <|IM_END|> <|im_end|",
    # the added tokens with flags: both-side stripping, whole words only, matched after normalisation, not special
    "x  <lean>  y <lean>\n\nz",
    "word wordy sword <whole> a<whole> <whole>b (<whole>)",
    "deja\u0300 vu d\u00e9j\u00e0 vu de\u0301ja\u0300 vu",
    "<think>\nplan\n</think>\n\n<tool_response>x</tool_response>",
    # long runs
    "na" * 120 + "!" * 60,
    " " * 50 + "x" + "\n" * 40,
]

POOL = [
    *"abcdeXYZ 0123  \n\t\r.,;:!?'\"-()",
    *"äéñçß¿",
    *"жыйёЩ",
    *"漢字かなカナ한글",
    "\u0301",
    "\u0308",
    "\u1161",
    "\u200d",
    "🙂",
    "'s",
    "'LL",
    " the",
    " und",
    "的",
    "。",
    "<|im_end|>",
    "<tts_pad>",
    "<think>",
]

SUFFIXES = ("s", "t", "re", "ve", "m", "ll", "d")
CONTRACTIONS = [f"'{form}x" for suffix in SUFFIXES for form in (suffix, suffix.upper())]
# runs over the borders that the split pattern draws, frequent enough in training to become tokens
BORDERS = ["\n\n", "\n\n\n", "   ", " the", " !", "!!", "!\n", "(the", " (", "12", "a1", *CONTRACTIONS]
TEXTS += [
    " ".join(f"a{contraction} A{contraction}" for contraction in CONTRACTIONS),
    "(the the!! (the) !the !!\n\n!\n the\n(!the !\n !! 12a1 a12 a 12",
]


def main() -> None:
    corpus = (DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()
    corpus += BORDERS * 30
    write_published(train(corpus, MERGES, normalise=True), DATA / "published")
    write_legacy(DATA / "published", DATA / "legacy")
    write_serialised(train(corpus, SMALL_MERGES, normalise=False), DATA / "serialised")
    texts = {"published": TEXTS + random_texts(160), "legacy": TEXTS, "serialised": TEXTS}
    goldens = {name: encode_all(name, wanted) for name, wanted in texts.items()}
    (DATA / "tokenizer_goldens.json").write_text(dump(goldens), encoding="utf-8")


def train(corpus: list[str], merges: int, normalise: bool) -> Tokenizer:
    """A tokenizer with Qwen2's split, whose merges were learned with a coarser one.

    Its merges therefore join digits, punctuation and spaces with letters, so that a wrong split changes ids.
    """
    tokenizer = Tokenizer(models.BPE())
    if normalise:
        tokenizer.normalizer = normalizers.NFC()
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    coarse = pre_tokenizers.Split(Regex(r"\s?\S+\n?"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([coarse, bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + merges, min_frequency=1, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    split = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_only])
    return tokenizer


def write_published(tokenizer: Tokenizer, directory: Path) -> None:
    """vocab.json + merges.txt + tokenizer_config.json, as the public checkpoints ship them, plus unusual flags."""
    reset(directory)
    tokenizer.model.save(str(directory))
    added = [flags(text, special=True) for text in CONTROLS]
    added += [flags(text, special=False) for text in ("<think>", "</think>", "<tool_response>", "</tool_response>")]
    added.append(flags("<lean>", special=True, lstrip=True, rstrip=True))
    added.append(flags("<whole>", special=False, single_word=True))
    added.append(flags("d\u00e9j\u00e0 vu", special=False, normalized=True))
    first = tokenizer.get_vocab_size()
    config = {
        "add_prefix_space": False,
        "added_tokens_decoder": {str(first + i): token for i, token in enumerate(added)},
        "additional_special_tokens": CONTROLS[1:],
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
    (directory / "tokenizer_config.json").write_text(dump(config), encoding="utf-8")


def write_legacy(published: Path, directory: Path) -> None:
    """The older declaration of added tokens; vocab.json and merges.txt are those of ``published``.

    One special token is only named, without an id: the tokenizer gives it the next free one.
    """
    reset(directory)
    config = json.loads((published / "tokenizer_config.json").read_text(encoding="utf-8"))
    added = {token["content"]: int(i) for i, token in config.pop("added_tokens_decoder").items()}
    controls = [*config.pop("additional_special_tokens"), "<|named_only|>"]
    special = {"additional_special_tokens": controls, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (directory / "tokenizer_config.json").write_text(dump(config), encoding="utf-8")
    (directory / "added_tokens.json").write_text(dump(added), encoding="utf-8")
    (directory / "special_tokens_map.json").write_text(dump(special), encoding="utf-8")


def write_serialised(tokenizer: Tokenizer, directory: Path) -> None:
    """A tokenizer.json without a normaliser; its tokenizer_config.json declares one token that the file lacks."""
    reset(directory)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in CONTROLS])
    first = tokenizer.get_vocab_size()
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    config = {
        "added_tokens_decoder": {str(first): flags("<think>", special=False)},
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "Qwen2Tokenizer",
    }
    (directory / "tokenizer_config.json").write_text(dump(config), encoding="utf-8")


def flags(content: str, **changed: bool) -> dict[str, Any]:
    plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": False}
    return {"content": content, **plain, **changed}


def random_texts(count: int) -> list[str]:
    draw = random.Random(20260)
    return ["".join(draw.choices(POOL, k=draw.randint(3, 24))) for _ in range(count)]


def encode_all(name: str, texts: list[str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / name
        shutil.copytree(DATA / name, directory)
        if name == "legacy":
            for file in ("vocab.json", "merges.txt"):
                shutil.copy(DATA / "published" / file, directory)
        fast = Qwen2TokenizerFast.from_pretrained(directory)
        slow = Qwen2Tokenizer.from_pretrained(directory) if name != "serialised" else None
        cases = []
        for text in texts:
            ids = fast(text)["input_ids"]
            case = {"text": text, "ids": ids, "decoded": fast.decode(ids)}
            if slow is not None and slow(text)["input_ids"] != ids:
                case["slow_ids"] = slow(text)["input_ids"]
            if case["decoded"] == text:
                del case["decoded"]
            cases.append(case)
        different = [case["text"] for case in cases if "slow_ids" in case]
        print(f"{name}: {len(cases)} texts; the slow tokenizer differs on {different!r}")
        return cases


def reset(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def dump(value: Any) -> str:
    """JSON with one list item or key per line at the top two levels only: small files, readable differences."""
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {dump_rows(item)}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + "\n}\n"
    raise TypeError(f"expected a dict, found {type(value).__name__}")


def dump_rows(item: Any) -> str:
    compact = {"ensure_ascii": True, "separators": (",", ":")}
    if isinstance(item, list) and item and isinstance(item[0], dict):
        return "[\n" + ",\n".join(json.dumps(row, **compact) for row in item) + "\n]"
    return json.dumps(item, **compact)


if __name__ == "__main__":
    main()
