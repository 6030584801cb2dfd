"""Opening a checkpoint directory: complete or refused with everything that is missing, and its fingerprint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.checkpoint.reader import open_checkpoint
from cpspec_trt.errors import CheckpointError, UnsupportedError
from cpspec_trt.synthetic.spec import SPECS
from cpspec_trt.synthetic.tts import write_tts_checkpoint
from tests.checkpoint.changes import PRETRAINED

DEMO_VOICE = Path(__file__).parents[2] / "assets" / "demo-voice" / "checkpoint"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sharded bfloat16 checkpoint with vocab.json and merges.txt, as published."""
    directory = tmp_path_factory.mktemp("reader") / "checkpoint"
    write_tts_checkpoint(directory, SPECS["tiny_square"], seed=3)
    return directory


@pytest.fixture
def checkpoint(source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(source, tmp_path / "checkpoint"))


def test_tensors_of_all_shards_and_of_the_codec_are_found(source: Path) -> None:
    opened = open_checkpoint(source)
    assert len({entry.file for entry in opened.tensors.entries.values()}) > 1
    assert opened.tensors.read("talker.codec_head.weight").dtype == np.float32
    assert "decoder.pre_conv.conv.weight" in opened.speech_tensors


def test_every_missing_file_is_listed_in_one_error(checkpoint: Path) -> None:
    gone = ["config.json", "tokenizer_config.json", "vocab.json", "merges.txt", "speech_tokenizer/config.json"]
    shards = sorted(file.name for file in checkpoint.glob("model-*.safetensors"))[1:]
    gone += [*shards, "speech_tokenizer/model.safetensors"]
    for name in gone:
        (checkpoint / name).unlink()
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(checkpoint)
    for name in gone:
        assert name in str(caught.value)
    assert "download it again" in str(caught.value)


def test_absent_weights_are_named_by_both_layouts(checkpoint: Path) -> None:
    for file in checkpoint.glob("model*"):
        file.unlink()
    with pytest.raises(CheckpointError, match=r"lacks model\.safetensors \(or model\.safetensors\.index\.json\); down"):
        open_checkpoint(checkpoint)


def test_tokenizer_json_stands_in_for_vocabulary_and_merges(checkpoint: Path) -> None:
    (checkpoint / "vocab.json").unlink()
    with pytest.raises(CheckpointError, match=r"lacks vocab\.json; download"):
        open_checkpoint(checkpoint)
    (checkpoint / "tokenizer.json").write_text("{}")
    open_checkpoint(checkpoint)


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: is not a directory"):
        open_checkpoint(tmp_path / "nowhere")


def test_a_truncated_shard_names_a_tensor(checkpoint: Path) -> None:
    shard = sorted(checkpoint.glob("model-*.safetensors"))[0]
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=rf"{shard.name}: tensor 'talker\.[^']+' is truncated"):
        open_checkpoint(checkpoint)


def test_a_damaged_index_is_refused(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors.index.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"index\.json: not JSON"):
        open_checkpoint(checkpoint)


def test_companion_files_are_the_tokenizer_and_the_optional_ones_that_exist(checkpoint: Path) -> None:
    names = {file.name for file in open_checkpoint(checkpoint).companion_files()}
    assert names == {"vocab.json", "merges.txt", "tokenizer_config.json", "generation_config.json"}
    (checkpoint / "vocabulary.txt").write_text("hello\n")
    assert checkpoint / "vocabulary.txt" in open_checkpoint(checkpoint).companion_files()


def test_the_demo_voice_is_a_complete_checkpoint() -> None:
    opened = open_checkpoint(DEMO_VOICE)
    assert opened.tensors.entry("talker.model.text_embedding.weight").shape == (688, 128)


def test_a_qwen3_omni_checkpoint_has_one_set_of_weights_and_one_configuration() -> None:
    opened = open_checkpoint(PRETRAINED)
    assert opened.family == "qwen3_omni_moe"
    assert opened.speech_tensors is opened.tensors
    assert opened.speech_config_path == opened.config_path
    assert "code2wav.decoder.0.conv.weight" in opened.tensors
    names = {file.name for file in opened.companion_files()}
    assert names == {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"}


def test_a_qwen3_omni_checkpoint_lacks_no_speech_tokenizer(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(PRETRAINED, tmp_path / "omni"))
    (copied / "tokenizer_config.json").unlink()
    with pytest.raises(CheckpointError, match=r"lacks tokenizer_config\.json; download"):
        open_checkpoint(copied)


def test_another_family_is_refused_before_its_files_are_missed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UnsupportedError, match="model_type 'bert' is not supported"):
        open_checkpoint(tmp_path)


def test_a_copy_has_the_same_fingerprint(source: Path, checkpoint: Path) -> None:
    fingerprint = open_checkpoint(source).fingerprint()
    assert len(fingerprint) == 64
    assert open_checkpoint(checkpoint).fingerprint() == fingerprint


@pytest.mark.parametrize(
    "name", ["config.json", "model-00002-of-*.safetensors", "speech_tokenizer/config.json", "speech_tokenizer/model.s*"]
)
def test_one_changed_byte_changes_the_fingerprint(source: Path, checkpoint: Path, name: str) -> None:
    (path,) = checkpoint.glob(name)
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x0A ^ 0x20 if path.suffix == ".json" else 1  # a newline becomes a space
    path.write_bytes(content)
    assert open_checkpoint(checkpoint).fingerprint() != open_checkpoint(source).fingerprint()


def test_other_files_do_not_change_the_fingerprint(source: Path, checkpoint: Path) -> None:
    (checkpoint / "README.md").write_text("notes")
    generation = json.loads((checkpoint / "generation_config.json").read_text()) | {"temperature": 0.5}
    (checkpoint / "generation_config.json").write_text(json.dumps(generation))
    assert open_checkpoint(checkpoint).fingerprint() == open_checkpoint(source).fingerprint()
