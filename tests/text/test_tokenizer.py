from __future__ import annotations

import functools
import json
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpspec_trt.errors import CheckpointError
from cpspec_trt.text.tokenizer import TextTokenizer, load_tokenizer, named_special_tokens

DATA = Path(__file__).parent / "data"
DEMO_VOICE = Path(__file__).parent.parent.parent / "assets" / "demo-voice"
LAYOUTS = ("published", "legacy", "serialised")
CopyLayout = Callable[[str], Path]


@pytest.fixture(scope="module")
def goldens() -> dict[str, list[dict[str, Any]]]:
    """Ids and decoded text per layout and text, from transformers' Qwen2 tokenizers."""
    found: dict[str, list[dict[str, Any]]] = json.loads((DATA / "tokenizer_goldens.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ids_equal_those_of_the_fast_pytorch_tokenizer(
    layout: str, goldens: dict[str, list[dict[str, Any]]], tokenizer_directory: CopyLayout
) -> None:
    tokenizer = load_tokenizer(tokenizer_directory(layout))
    assert len(goldens[layout]) > 40
    for case in goldens[layout]:
        assert tokenizer.encode(case["text"]) == case["ids"], case["text"]


def test_ids_equal_those_of_the_pure_python_pytorch_tokenizer_except_for_whole_word_tokens(
    goldens: dict[str, list[dict[str, Any]]], published_tokenizer: TextTokenizer
) -> None:
    # The pure Python tokenizer looks only at spaces to tell a whole word; the other one also knows punctuation.
    for case in goldens["published"]:
        if "<whole>" not in case["text"]:
            assert published_tokenizer.encode(case["text"]) == case.get("slow_ids", case["ids"]), case["text"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_decoded_text_equals_that_of_the_pytorch_tokenizer(
    layout: str, goldens: dict[str, list[dict[str, Any]]], tokenizer_directory: CopyLayout
) -> None:
    tokenizer = load_tokenizer(tokenizer_directory(layout))
    for case in goldens[layout]:
        assert tokenizer.decode(case["ids"]) == case.get("decoded", case["text"])


@functools.cache
def published() -> TextTokenizer:
    return load_tokenizer(DATA / "published")


@given(st.text(st.characters(exclude_categories=("Cs", "Cn"))))
def test_any_text_comes_back_in_composed_form(text: str) -> None:
    assert published().decode(published().encode(text)) == unicodedata.normalize("NFC", text)


def test_a_tokenizer_json_wins_over_vocabulary_and_merges_and_keeps_its_own_normalisation(
    goldens: dict[str, list[dict[str, Any]]], tokenizer_directory: CopyLayout
) -> None:
    directory = tokenizer_directory("serialised")
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(DATA / "published" / name, directory)
    case = next(case for case in goldens["serialised"] if "Cafe\u0301" in case["text"])
    tokenizer = load_tokenizer(directory)
    assert tokenizer.encode(case["text"]) == case["ids"]
    assert tokenizer.decode(case["ids"]) == case["text"]  # still decomposed: this file has no normaliser


def test_the_demo_voice_gives_the_same_ids_from_both_of_its_forms(
    goldens: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copy(DEMO_VOICE / "checkpoint" / name, tmp_path)
    serialised, published = load_tokenizer(DEMO_VOICE / "checkpoint"), load_tokenizer(tmp_path)
    sentences = (DEMO_VOICE / "heldout.txt").read_text(encoding="utf-8").splitlines()
    for text in sentences + [case["text"] for case in goldens["published"]]:
        assert serialised.encode(text) == published.encode(text), text


def test_a_token_is_found_by_name_and_an_unknown_one_is_none(published_tokenizer: TextTokenizer) -> None:
    config = json.loads((DATA / "published" / "tokenizer_config.json").read_text(encoding="utf-8"))
    declared = {token["content"]: int(index) for index, token in config["added_tokens_decoder"].items()}
    vocabulary = json.loads((DATA / "published" / "vocab.json").read_text(encoding="utf-8"))
    assert published_tokenizer.token_to_id("<|im_start|>") == declared["<|im_start|>"]
    assert published_tokenizer.token_to_id("assistant") == vocabulary["assistant"]
    assert published_tokenizer.token_to_id("<|no_such_token|>") is None


def test_every_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"missing vocab\.json, merges\.txt, tokenizer_config\.json"):
        load_tokenizer(tmp_path)


def test_one_missing_file_is_named(tokenizer_directory: CopyLayout) -> None:
    directory = tokenizer_directory("published")
    (directory / "merges.txt").unlink()
    with pytest.raises(CheckpointError, match=r"missing merges\.txt \(one tokenizer\.json would do instead\)"):
        load_tokenizer(directory)


def test_a_config_without_added_tokens_names_the_file_that_could_hold_them(tokenizer_directory: CopyLayout) -> None:
    directory = tokenizer_directory("legacy")
    (directory / "added_tokens.json").unlink()
    with pytest.raises(CheckpointError, match=r"no 'added_tokens_decoder' and added_tokens\.json is missing"):
        load_tokenizer(directory)


def test_a_vocabulary_cut_short_is_not_json(tokenizer_directory: CopyLayout) -> None:
    directory = tokenizer_directory("published")
    cut_file(directory / "vocab.json", 1000)
    with pytest.raises(CheckpointError, match=r"vocab\.json: not JSON"):
        load_tokenizer(directory)


def test_merges_cut_at_the_end_of_a_line_are_noticed(tokenizer_directory: CopyLayout) -> None:
    directory = tokenizer_directory("published")
    path = directory / "merges.txt"
    path.write_text("\n".join(path.read_text(encoding="utf-8").splitlines()[:-5]) + "\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"merges\.txt: no merge makes 5 tokens of vocab\.json, first '"):
        load_tokenizer(directory)


def test_merges_cut_inside_a_line_name_the_line(tokenizer_directory: CopyLayout) -> None:
    directory = tokenizer_directory("published")
    path = directory / "merges.txt"
    lines = path.read_text(encoding="utf-8").splitlines()[:50]
    path.write_text("\n".join([*lines, "onlyone"]), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"merges\.txt: line 51: expected two tokens, found 'onlyone'"):
        load_tokenizer(directory)


def test_merges_of_another_vocabulary_name_the_token_that_is_missing(tokenizer_directory: CopyLayout) -> None:
    directory = tokenizer_directory("published")
    with (directory / "merges.txt").open("a", encoding="utf-8") as file:
        file.write("assistant assistant\n")
    with pytest.raises(CheckpointError, match=r"needs the token 'assistantassistant', which vocab\.json lacks"):
        load_tokenizer(directory)


def test_merges_that_are_not_utf8_name_the_file(tokenizer_directory: CopyLayout) -> None:
    directory = tokenizer_directory("published")
    (directory / "merges.txt").write_bytes(b"#version: 0.2\n\xff\xfe a\n")
    with pytest.raises(CheckpointError, match=r"merges\.txt: the merges are not UTF-8 \(byte 14\); copy"):
        load_tokenizer(directory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda vocabulary: vocabulary.pop("Ā"), r"1 of the 256 byte tokens are missing, first 'Ā'"),
        (lambda vocabulary: vocabulary.update(the=0), r"two tokens of the vocabulary share one id"),
        (lambda vocabulary: vocabulary.update(the="5"), r"must map every token to its id"),
    ],
)
def test_a_damaged_vocabulary_is_refused(
    change: Callable[[dict[str, Any]], None], message: str, tokenizer_directory: CopyLayout
) -> None:
    directory = tokenizer_directory("published")
    edit_json(directory / "vocab.json", change)
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(directory)


def move_one_token(config: dict[str, Any]) -> None:
    declared = config["added_tokens_decoder"]
    declared["9000"] = declared.pop(max(declared))


def spoil_a_flag(config: dict[str, Any]) -> None:
    next(iter(config["added_tokens_decoder"].values()))["lstrip"] = "no"


def drop_a_content(config: dict[str, Any]) -> None:
    del next(iter(config["added_tokens_decoder"].values()))["content"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (move_one_token, r"declared with id 9000 but the vocabulary gives it \d+"),
        (spoil_a_flag, r"added token \d+ \('<\|endoftext\|>'\) has a flag that is not true or false"),
        (drop_a_content, r"needs a non-empty text in 'content'"),
        (lambda config: config.update(added_tokens_decoder=[]), r"'added_tokens_decoder' must map ids to tokens"),
        (lambda config: config.update(additional_special_tokens="x"), r"'additional_special_tokens' must be a list"),
    ],
)
def test_a_damaged_tokenizer_config_is_refused(
    change: Callable[[dict[str, Any]], None], message: str, tokenizer_directory: CopyLayout
) -> None:
    directory = tokenizer_directory("published")
    edit_json(directory / "tokenizer_config.json", change)
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: .*" + message):
        load_tokenizer(directory)


def test_a_damaged_tokenizer_json_is_an_error_even_beside_vocabulary_and_merges(
    tokenizer_directory: CopyLayout,
) -> None:
    directory = tokenizer_directory("published")
    (directory / "tokenizer.json").write_text('{"version": "1.0", "mod', encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: not JSON"):
        load_tokenizer(directory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value["model"].update(type="Unigram"), r"'model\.type' must be 'BPE', found 'Unigram'"),
        (lambda value: value.pop("model"), r"'model\.type' must be 'BPE', found None"),
        (lambda value: value["model"].pop("merges"), r"required field 'merges' is missing"),
        (lambda value: value["model"]["merges"].append(["x"]), r"'model\.merges', entry 300: expected two tokens"),
        (lambda value: value.update(decoder={"type": "nonsense"}), r"not a tokenizer file of the tokenizers library"),
    ],
)
def test_a_tokenizer_json_of_another_make_is_refused(
    change: Callable[[dict[str, Any]], None], message: str, tokenizer_directory: CopyLayout
) -> None:
    directory = tokenizer_directory("serialised")
    edit_json(directory / "tokenizer.json", change)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: .*" + message):
        load_tokenizer(directory)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_named_special_tokens_are_those_that_the_files_name(layout: str, tokenizer_directory: CopyLayout) -> None:
    assert named_special_tokens(tokenizer_directory(layout)) == {
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
    }


def test_a_named_special_token_may_be_an_object_and_the_legacy_map_wins_over_a_legacy_config(
    tokenizer_directory: CopyLayout, tmp_path: Path
) -> None:
    directory = tokenizer_directory("legacy")
    edit_json(directory / "special_tokens_map.json", lambda value: value.update(eos_token={"content": "<eos>"}))
    assert named_special_tokens(directory)["eos_token"] == "<eos>"
    edit_json(directory / "tokenizer_config.json", lambda value: value.update(added_tokens_decoder={}))
    assert named_special_tokens(directory)["eos_token"] == "<|im_end|>"
    assert named_special_tokens(tmp_path / "nowhere") == {}


def cut_file(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def edit_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
