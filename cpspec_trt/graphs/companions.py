"""The files beside the first language model: its tokenizer and its sampling defaults, checked, then copied."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from cpspec_trt.checkpoint.generation_config import check_generation_config
from cpspec_trt.checkpoint.reader import Checkpoint, reading
from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.engine_config import TalkerConfig, ThinkerConfig
from cpspec_trt.text.tokenizer import load_tokenizer
from cpspec_trt.text.vocabulary import VOCABULARY_FILE, read_vocabulary

#: Field of the configuration -> the token whose id it is. A TTS checkpoint has no user and no system.
_TOKENS: Mapping[str, str] = MappingProxyType(
    {
        "im_start_token_id": "<|im_start|>",
        "im_end_token_id": "<|im_end|>",
        "user_token_id": "user",
        "assistant_token_id": "assistant",
        "system_token_id": "system",
        "tts_pad_token_id": "<tts_pad>",
        "tts_bos_token_id": "<tts_text_bos>",
        "tts_eos_token_id": "<tts_text_eod>",
    }
)


def check_companions(checkpoint: Checkpoint, config: TalkerConfig | ThinkerConfig) -> None:
    """Read what will be copied, and compare the tokenizer with the ids that ``config`` names.

    Raises:
        CheckpointError: a file is damaged, or an id is not that of its token.
        EngineError: the list of known words is damaged.
    """
    check_generation_config(checkpoint)
    if (checkpoint.directory / VOCABULARY_FILE).is_file():
        read_vocabulary(checkpoint.directory / VOCABULARY_FILE)
    tokenizer = load_tokenizer(checkpoint.directory)
    for field, token in _TOKENS.items():
        expected = getattr(config, field, None)
        found = tokenizer.encode(token)
        if expected is not None and found != [expected]:
            raise CheckpointError(
                f"{checkpoint.config_path}: field {field!r} is {expected}, but the tokenizer writes {token!r} as "
                f"{found}; configuration and tokenizer are of different checkpoints, copy both again"
            )


def copy_companions(checkpoint: Checkpoint, directory: Path) -> None:
    """Copy the tokenizer's files and the sampling defaults.

    Raises:
        CheckpointError: one of them cannot be read.
    """
    for file in checkpoint.companion_files():
        with reading(file), file.open("rb"):
            pass
        shutil.copyfile(file, directory / file.name)
