"""The tokenizer files of synthetic checkpoints, read by the tokenizers library alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers.models import BPE

from cpspec_trt.synthetic.omni_spec import OMNI_SPECS
from cpspec_trt.synthetic.spec import SPECS
from cpspec_trt.synthetic.tokenizer import learn_merges, write_tokenizer
from cpspec_trt.text.tokenizer import load_tokenizer

SIZES = sorted({spec.text_base_vocab for spec in (*SPECS.values(), *OMNI_SPECS.values())})


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The files at the published vocabulary size, and the ids."""
    directory = tmp_path_factory.mktemp("tokenizer")
    return directory, write_tokenizer(directory, 151643)


def test_the_added_tokens_get_the_published_ids(published: tuple[Path, dict[str, int]]) -> None:
    _, ids = published
    expected = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
    expected |= {"<tts_pad>": 151671, "<tts_text_bos>": 151672, "<tts_text_eod>": 151673, "<|audio_pad|>": 151675}
    assert {token: ids[token] for token in expected} == expected


def test_the_config_names_every_added_token_and_which_are_special(published: tuple[Path, dict[str, int]]) -> None:
    directory, ids = published
    config = json.loads((directory / "tokenizer_config.json").read_text())
    added = {entry["content"]: int(number) for number, entry in config["added_tokens_decoder"].items()}
    assert added == {token: number for token, number in ids.items() if number >= 151643}
    ordinary = {entry["content"] for entry in config["added_tokens_decoder"].values() if not entry["special"]}
    assert len(added) == 33
    assert {"<tool_call>", "<think>", "<|fim_pad|>"} < ordinary
    assert not ordinary & {"<|im_start|>", "<tts_pad>", *config["additional_special_tokens"]}


@pytest.mark.parametrize("base_size", [400, 151643])
def test_the_roles_are_one_token_each(base_size: int, tmp_path: Path) -> None:
    ids = write_tokenizer(tmp_path, base_size)
    model = BPE.from_file(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    for role in ("user", "assistant", "system"):
        assert [token.id for token in model.tokenize(role)] == [ids[role]]


def test_vocabulary_ids_are_dense_and_every_merge_makes_a_token(published: tuple[Path, dict[str, int]]) -> None:
    directory, _ = published
    vocabulary = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
    lines = (directory / "merges.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(vocabulary.values()) == list(range(151643))
    assert lines[0] == "#version: 0.2"
    assert all(line.replace(" ", "") in vocabulary for line in lines[1:])


@pytest.mark.parametrize("base_size", SIZES)
def test_the_tokenizer_of_every_named_size_is_one_that_the_runtime_loads(base_size: int, tmp_path: Path) -> None:
    ids = write_tokenizer(tmp_path, base_size)
    tokenizer = load_tokenizer(tmp_path)
    text = "<|im_start|>assistant\nDer Zug fährt um 17:45 Uhr ab – 明天见 🙂<|im_end|>\n"
    found = tokenizer.encode(text)
    assert tokenizer.decode(found) == text
    assert found[:2] == [ids["<|im_start|>"], ids["assistant"]]
    reached = 256 + len(learn_merges(base_size - 256))  # what follows are fillers
    assert all(number < reached or number >= base_size for number in found)


def test_merges_are_a_prefix_of_more_merges() -> None:
    assert learn_merges(100)[:40] == learn_merges(40)
