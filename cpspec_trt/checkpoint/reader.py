"""A checkpoint directory in Hugging Face layout: which files it must have, its tensors, and its fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cpspec_trt.checkpoint.family import QWEN3_TTS, read_family
from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.tensors import TensorSet, open_sharded_tensors, open_tensors, shard_names

SINGLE_FILE = "model.safetensors"
SHARD_INDEX = "model.safetensors.index.json"
SPEECH_TOKENIZER = "speech_tokenizer"
TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
)
#: Every file that may stand beside the first language model.
COMPANION_FILES = (*TOKENIZER_FILES, "generation_config.json", "vocabulary.txt")
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An opened checkpoint: every needed file exists and every tensor header is sound.

    ``tensors`` holds the language models' weights. ``speech_tensors`` holds code2wav's: those of
    ``speech_tokenizer/`` in Qwen3-TTS, the same as ``tensors`` in Qwen3-Omni.
    """

    directory: Path
    family: str  # see ``checkpoint.family``
    tensors: TensorSet
    speech_tensors: TensorSet

    @property
    def config_path(self) -> Path:
        """``config.json`` of the language models."""
        return self.directory / "config.json"

    @property
    def speech_config_path(self) -> Path:
        """The ``config.json`` that describes code2wav."""
        return self.directory / SPEECH_TOKENIZER / "config.json" if self.family == QWEN3_TTS else self.config_path

    def companion_files(self) -> list[Path]:
        """Files that belong beside the first language model: the tokenizer's, and optional ones if they are there."""
        return [self.directory / name for name in COMPANION_FILES if (self.directory / name).is_file()]

    def fingerprint(self) -> str:
        """SHA-256 (hex) over names, sizes and contents of both configs and all weight files, read in blocks.

        Raises:
            CheckpointError: a file cannot be read.
        """
        digest = hashlib.sha256()
        weights = {entry.file for tensors in (self.tensors, self.speech_tensors) for entry in tensors.entries.values()}
        for path in sorted({self.config_path, self.speech_config_path, *weights}):
            name = path.relative_to(self.directory).as_posix()
            with reading(path), path.open("rb") as stream:
                digest.update(f"{name}\n{path.stat().st_size}\n".encode())
                while block := stream.read(_BLOCK_BYTES):
                    digest.update(block)
        return digest.hexdigest()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Report an error of the operating system as a fault of the checkpoint's file.

    Raises:
        CheckpointError: the block raised OSError.
    """
    try:
        yield
    except OSError as fault:
        raise CheckpointError(f"{path}: cannot be read: {fault.strerror}; make it readable") from None


def open_checkpoint(directory: Path) -> Checkpoint:
    """Open a checkpoint and read the headers of its weight files.

    Raises:
        CheckpointError: the directory does not exist, files are missing (all are listed in one message),
            or a weight file or the configuration is damaged.
        UnsupportedError: the checkpoint is of another family.
    """
    if not directory.is_dir():
        remedy = "pass the directory of a Qwen3-TTS or Qwen3-Omni checkpoint"
        raise CheckpointError(f"{directory}: is not a directory; {remedy}")
    config = directory / "config.json"
    family = read_family(config) if config.is_file() else None
    missing = missing_files(directory, family)
    if missing or family is None:
        raise CheckpointError(f"{directory}: the checkpoint lacks {', '.join(missing)}; download it again, complete")
    tensors = _open_weights(directory)
    speech = _open_weights(directory / SPEECH_TOKENIZER) if family == QWEN3_TTS else tensors
    return Checkpoint(directory, family, tensors, speech)


def missing_files(directory: Path, family: str | None) -> list[str]:
    """Names, relative to ``directory``, of every needed file that is not there.

    Args:
        directory: of the checkpoint.
        family: None if ``config.json``, which would tell it, is missing itself.

    Raises:
        CheckpointError: a shard index is damaged.
    """
    missing = [name for name in ("config.json", "tokenizer_config.json") if not (directory / name).is_file()]
    if not (directory / "tokenizer.json").is_file():
        # tokenizer.json alone would do as well; the published checkpoints have the pair instead
        missing += [name for name in ("vocab.json", "merges.txt") if not (directory / name).is_file()]
    missing += _missing_weights(directory, "")
    if family == QWEN3_TTS or (family is None and (directory / SPEECH_TOKENIZER).is_dir()):
        if not (directory / SPEECH_TOKENIZER / "config.json").is_file():
            missing.append(f"{SPEECH_TOKENIZER}/config.json")
        missing += _missing_weights(directory, f"{SPEECH_TOKENIZER}/")
    return missing


def _missing_weights(directory: Path, inside: str) -> list[str]:
    if (directory / inside / SINGLE_FILE).is_file():
        return []
    index = directory / inside / SHARD_INDEX
    if not index.is_file():
        return [f"{inside}{SINGLE_FILE} (or {SHARD_INDEX})"]
    shards = sorted(set(shard_names(index, CheckpointError).values()))
    return [f"{inside}{name}" for name in shards if not (directory / inside / name).is_file()]


def _open_weights(directory: Path) -> TensorSet:
    if (directory / SINGLE_FILE).is_file():
        return open_tensors(directory / SINGLE_FILE, CheckpointError)
    return open_sharded_tensors(directory / SHARD_INDEX, CheckpointError)
