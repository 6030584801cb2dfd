"""Text to token ids: the byte-level BPE of the Qwen2 family.

A directory holds either one ``tokenizer.json``, or the three files of the published Qwen3-TTS checkpoints:
``vocab.json``, ``merges.txt`` and ``tokenizer_config.json``. When both are there ``tokenizer.json`` is used as it
stands, as the PyTorch tokenizer does: what it says about normalisation and splitting is final.

The split pattern is Qwen2's, which the models were trained with. The reference wrapper passes ``fix_mistral_regex``
to its tokenizer; with transformers 4.57.3 and a checkpoint in a local directory that replaces the pattern by another
family's (it cuts ``iPhone`` into ``i`` and ``Phone``), without it the pattern is the one below.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.engine_config import take
from cpspec_trt.files.json_io import read_json

SERIALISED_FILE = "tokenizer.json"
PUBLISHED_FILES = ("vocab.json", "merges.txt", "tokenizer_config.json")
LEGACY_ADDED_FILE = "added_tokens.json"
LEGACY_SPECIAL_FILE = "special_tokens_map.json"

SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
_NAMED_SPECIALS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_Merges = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class TextTokenizer:
    """A loaded tokenizer. ``directory`` is where it came from, for messages."""

    directory: Path
    _backend: Tokenizer = field(repr=False)

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``; special tokens that stand in the text become their single ids."""
        return list(self._backend.encode(text).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``, special tokens included; bytes that are no UTF-8 become U+FFFD."""
        return str(self._backend.decode(list(ids), skip_special_tokens=False))

    def plain_text(self, ids: Sequence[int]) -> str:
        """As ``decode``, with special tokens left out."""
        return str(self._backend.decode(list(ids), skip_special_tokens=True))

    def token_to_id(self, token: str) -> int | None:
        """The id of one token, written as the vocabulary writes it, or None."""
        found = self._backend.token_to_id(token)
        return None if found is None else int(found)


def missing_tokenizer_files(directory: Path) -> list[str]:
    """Names of the files that ``load_tokenizer`` would need and that ``directory`` lacks; empty if it can load."""
    if (directory / SERIALISED_FILE).is_file():
        return []
    return [name for name in PUBLISHED_FILES if not (directory / name).is_file()]


def load_tokenizer(directory: Path) -> TextTokenizer:
    """Load the tokenizer of a checkpoint, export or engine directory.

    Raises:
        CheckpointError: files are missing (all of them are named), damaged, or do not belong together.
    """
    missing = missing_tokenizer_files(directory)
    if missing:
        raise CheckpointError(
            f"{directory}: the tokenizer is incomplete, missing {', '.join(missing)} "
            f"(one {SERIALISED_FILE} would do instead); copy them from the published checkpoint"
        )
    serialised = (directory / SERIALISED_FILE).is_file()
    backend = _read_serialised(directory) if serialised else _read_published(directory)
    backend.no_truncation()
    backend.no_padding()
    return TextTokenizer(directory, backend)


def named_special_tokens(directory: Path) -> dict[str, str]:
    """``eos_token``, ``pad_token`` and the like as the tokenizer's files name them; {} without such a file.

    A config of the older form, without ``added_tokens_decoder``, yields to ``special_tokens_map.json``.

    Raises:
        CheckpointError: a file is damaged or a token is not a text.
    """
    path, special_path = directory / PUBLISHED_FILES[2], directory / LEGACY_SPECIAL_FILE
    config = read_json(path, CheckpointError, "tokenizer config") if path.is_file() else {}
    if "added_tokens_decoder" not in config and special_path.is_file():
        path, config = special_path, {**config, **read_json(special_path, CheckpointError, "special tokens map")}
    given = {name: config[name] for name in _NAMED_SPECIALS if config.get(name) is not None}
    return {name: value if isinstance(value, str) else _content(value, path) for name, value in given.items()}


def _read_serialised(directory: Path) -> Tokenizer:
    path = directory / SERIALISED_FILE
    value = read_json(path, CheckpointError, "tokenizer")
    model = value.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE":
        found = model.get("type") if isinstance(model, dict) else model
        raise CheckpointError(f"{path}: field 'model.type' must be 'BPE', found {found!r:.60}")
    added = [_content(token, path) for token in take(value, "added_tokens", list, path, CheckpointError)]
    entries = take(model, "merges", list, path, CheckpointError)
    merges = [_merge(entry, f"{path}: field 'model.merges', entry {i}") for i, entry in enumerate(entries)]
    _check_model(_vocabulary(model.get("vocab"), path), merges, added, path, path)
    try:
        backend = Tokenizer.from_file(str(path))
    except Exception as fault:  # the tokenizers library raises nothing narrower
        raise CheckpointError(f"{path}: not a tokenizer file of the tokenizers library: {fault}") from None
    config = directory / "tokenizer_config.json"
    if config.is_file():
        _add_declared(backend, read_json(config, CheckpointError, "tokenizer config"), config)
    return backend


def _read_published(directory: Path) -> Tokenizer:
    vocab_path, merges_path, config_path = (directory / name for name in PUBLISHED_FILES)
    vocabulary = _vocabulary(read_json(vocab_path, CheckpointError, "vocabulary"), vocab_path)
    merges = _read_merges(merges_path)
    config = read_json(config_path, CheckpointError, "tokenizer config")
    if "added_tokens_decoder" not in config:
        config = _legacy_config(directory, config)
    added = [token.content for token in _declared_tokens(config, config_path).values()]
    _check_model(vocabulary, merges, added, vocab_path, merges_path)
    backend = Tokenizer(models.BPE(vocab=dict(vocabulary), merges=merges))
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    _add_declared(backend, config, config_path)
    return backend


def _read_merges(path: Path) -> _Merges:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as fault:
        raise CheckpointError(f"{path}: cannot be read: {fault.strerror}; make it readable") from None
    except UnicodeDecodeError as fault:
        raise CheckpointError(f"{path}: the merges are not UTF-8 (byte {fault.start}); copy the file again") from None
    start = 1 if lines[0].startswith("#version:") else 0
    numbered = enumerate(lines[start:], start + 1)
    return [_merge(line, f"{path}: line {number}") for number, line in numbered if line.strip()]


def _merge(entry: Any, where: str) -> tuple[str, str]:
    parts = entry.split() if isinstance(entry, str) else entry
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise CheckpointError(f"{where}: expected two tokens, found {entry!r:.60}; copy the file again")
    return parts[0], parts[1]


def _vocabulary(value: Any, path: Path) -> Mapping[str, int]:
    if not isinstance(value, dict) or not all(type(index) is int and index >= 0 for index in value.values()):
        raise CheckpointError(f"{path}: the vocabulary must map every token to its id, a whole number from 0 on")
    if len(set(value.values())) != len(value):
        raise CheckpointError(f"{path}: two tokens of the vocabulary share one id; copy the file again")
    return value


def _check_model(
    vocabulary: Mapping[str, int], merges: _Merges, added: Iterable[str], vocab_path: Path, merges_path: Path
) -> None:
    """Vocabulary and merges must explain each other: a cut file would change ids without any other sign."""
    missing = [char for char in pre_tokenizers.ByteLevel.alphabet() if char not in vocabulary]
    if missing:
        raise CheckpointError(
            f"{vocab_path}: {len(missing)} of the 256 byte tokens are missing, first {min(missing)!r}; "
            "text with these bytes would be dropped, copy the file again"
        )
    made = set()
    for left, right in merges:
        for token in (left, right, left + right):
            if token not in vocabulary:
                raise CheckpointError(
                    f"{merges_path}: the merge {left!r} {right!r} needs the token {token!r}, "
                    f"which {vocab_path.name} lacks; copy both files again"
                )
        made.add(left + right)
    unmade = [token for token in vocabulary if len(token) > 1 and token not in made]
    lost = sorted(set(unmade) - set(added))
    if lost:
        raise CheckpointError(
            f"{merges_path}: no merge makes {len(lost)} tokens of {vocab_path.name}, first {lost[0]!r}; "
            "the file is cut short or belongs to another vocabulary, copy both files again"
        )


def _legacy_config(directory: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """A tokenizer config of the older form, rewritten so that it declares the tokens of ``added_tokens.json``.

    A token that a special field names is special; any other one is matched after normalisation.
    """
    path, special_path = directory / LEGACY_ADDED_FILE, directory / LEGACY_SPECIAL_FILE
    if not path.is_file():
        raise CheckpointError(
            f"{directory}: tokenizer_config.json has no 'added_tokens_decoder' and {LEGACY_ADDED_FILE} is missing; "
            "copy both from the published checkpoint"
        )
    ids = _vocabulary(read_json(path, CheckpointError, "list of added tokens"), path)
    named = read_json(special_path, CheckpointError, "special tokens map") if special_path.is_file() else {}
    special = _special_tokens({**config, **named}, special_path)
    declared = {str(index): {"content": token, "normalized": token not in special} for token, index in ids.items()}
    return {**config, **named, "added_tokens_decoder": declared}


def _add_declared(backend: Tokenizer, config: Mapping[str, Any], path: Path) -> None:
    """Add the tokens that the config declares, in the order of their ids, then special ones it only names."""
    declared = _declared_tokens(config, path)
    present = {repr(token) for token in backend.get_added_tokens_decoder().values()}
    backend.add_tokens([token for _, token in sorted(declared.items()) if repr(token) not in present])
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    named = [token for token in _special_tokens(config, path) if token not in known]
    backend.add_tokens([AddedToken(token, normalized=False, special=True) for token in named])
    for index, token in declared.items():
        found = backend.token_to_id(token.content)
        if found != index:
            raise CheckpointError(
                f"{path}: the added token {token.content!r} is declared with id {index} but the vocabulary "
                f"gives it {found}; vocabulary and config do not belong together, copy both again"
            )


def _declared_tokens(config: Mapping[str, Any], path: Path) -> dict[int, AddedToken]:
    """``added_tokens_decoder``: id -> token with its flags."""
    declared = config.get("added_tokens_decoder", {})
    if not isinstance(declared, dict) or not all(index.isdecimal() for index in declared):
        raise CheckpointError(f"{path}: field 'added_tokens_decoder' must map ids to tokens, found {declared!r:.60}")
    tokens = {}
    for index, value in declared.items():
        content = _content(value, path)
        flags = {name: value[name] for name in _FLAGS if name in value}
        if not all(isinstance(flag, bool) for flag in flags.values()):
            raise CheckpointError(f"{path}: added token {index} ({content!r}) has a flag that is not true or false")
        tokens[int(index)] = AddedToken(content, **flags)
    return tokens


def _special_tokens(config: Mapping[str, Any], path: Path) -> list[str]:
    """Tokens that the special fields of a tokenizer config name, each once, in the order of the fields."""
    listed = config.get("additional_special_tokens") or []
    if not isinstance(listed, list):
        raise CheckpointError(f"{path}: field 'additional_special_tokens' must be a list, found {listed!r:.60}")
    values = [config[name] for name in _NAMED_SPECIALS if config.get(name) is not None] + listed
    return list(dict.fromkeys(value if isinstance(value, str) else _content(value, path) for value in values))


def _content(token: Any, path: Path) -> str:
    content = token.get("content") if isinstance(token, dict) else None
    if not isinstance(content, str) or not content:
        shown = json.dumps(token, ensure_ascii=False)[:60]
        raise CheckpointError(f"{path}: an added token needs a non-empty text in 'content', found {shown}")
    return content
