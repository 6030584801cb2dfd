"""Tokenizer directories in the layouts a checkpoint can have, and configs that fit the goldens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.files.engine_config import (
    DecoderDimensions,
    MoeDimensions,
    OmniTalkerConfig,
    TalkerConfig,
    ThinkerConfig,
)
from cpspec_trt.text.tokenizer import TextTokenizer, load_tokenizer

DATA = Path(__file__).parent / "data"


@pytest.fixture
def tokenizer_directory(tmp_path: Path) -> Callable[[str], Path]:
    """Copies one layout (published, legacy or serialised) to a place where a test may damage it."""

    def copy(layout: str) -> Path:
        directory = tmp_path / layout
        shutil.copytree(DATA / layout, directory)
        if layout == "legacy":
            for name in ("vocab.json", "merges.txt"):
                shutil.copy(DATA / "published" / name, directory)
        return directory

    return copy


@pytest.fixture(scope="session")
def published_tokenizer() -> TextTokenizer:
    return load_tokenizer(DATA / "published")


@pytest.fixture(scope="session")
def layout_goldens() -> dict[str, Any]:
    goldens: dict[str, Any] = json.loads((DATA / "layout_goldens.json").read_text(encoding="utf-8"))
    return goldens


@pytest.fixture(scope="session")
def talker_config(layout_goldens: dict[str, Any]) -> Callable[..., TalkerConfig]:
    """Builds the config of the golden model; keywords replace fields."""

    def build(model_type: str = "custom_voice", model_size: str = "1b7", **changed: Any) -> TalkerConfig:
        codec = dict(layout_goldens["config"]["codec"])
        speakers, dialects = codec.pop("spk_id"), codec.pop("spk_is_dialect")
        custom = model_type == "custom_voice"
        values = {
            "model": "qwen3_tts_talker",
            "checkpoint_fingerprint": "0" * 64,
            "model_type": model_type,
            "model_size": model_size,
            "decoder": DecoderDimensions(1, 16, 16, 1, 1, 16, 1088, 512, 1e-6, 1e6),
            "text_hidden_size": 16,
            "text_vocab_size": 4096,
            "num_code_groups": 16,
            "codec_eos_id": codec.pop("codec_eos_token_id"),
            "languages": codec.pop("codec_language_id"),
            "speakers": speakers if custom else {},
            "dialects": {name: dialect for name, dialect in dialects.items() if dialect and custom},
            **codec,
            **layout_goldens["config"]["text_token_ids"],
        }
        return TalkerConfig(**{**values, **changed})

    return build


@pytest.fixture(scope="session")
def omni_goldens() -> dict[str, Any]:
    goldens: dict[str, Any] = json.loads((DATA / "omni_layout_goldens.json").read_text(encoding="utf-8"))
    return goldens


@pytest.fixture(scope="session")
def omni_thinker(omni_goldens: dict[str, Any]) -> ThinkerConfig:
    """The Thinker of the golden model."""
    return ThinkerConfig(
        model="qwen3_omni_moe_thinker",
        checkpoint_fingerprint="0" * 64,
        decoder=DecoderDimensions(2, 16, 16, 2, 1, 16, 2304, 512, 1e-6, 1e6),
        moe=MoeDimensions(2, 1, 16, True, 0, ()),
        accept_hidden_layer=1,
        enable_audio_output=True,
        **omni_goldens["config"]["token_ids"],
    )


@pytest.fixture(scope="session")
def omni_talker(omni_goldens: dict[str, Any]) -> Callable[..., OmniTalkerConfig]:
    """Builds the Talker's config of the golden model; keywords replace fields."""

    def build(**changed: Any) -> OmniTalkerConfig:
        codec = dict(omni_goldens["config"]["codec"])
        values = {
            "model": "qwen3_omni_moe_talker",
            "checkpoint_fingerprint": "0" * 64,
            "decoder": DecoderDimensions(2, 16, 16, 2, 1, 16, 1088, 512, 1e-6, 1e6),
            "moe": MoeDimensions(2, 1, 16, True, 16, ()),
            "thinker_hidden_size": 16,
            "accept_hidden_layer": 1,
            "num_code_groups": 16,
            "codec_eos_id": codec.pop("codec_eos_token_id"),
            "speakers": codec.pop("speaker_id"),
            **codec,
        }
        return OmniTalkerConfig(**{**values, **changed})

    return build
