"""What a synthetic Qwen3-TTS checkpoint looks like: every dimension, and the named sizes that tests use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.files.tensors import StorageType
from cpspec_trt.synthetic.codec_vocabulary import TAG_IDS
from cpspec_trt.synthetic.spec_checks import (
    check_code_groups,
    check_codebook,
    check_mrope,
    check_stack,
    check_text_vocabulary,
)

Kind = Literal["custom_voice", "voice_design"]


@dataclass(frozen=True, slots=True)
class SpeechEncoderSpec:
    """Audio to codes. Speaking never runs it, but a published checkpoint carries it."""

    num_filters: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_dim: int
    codebook_dim: int
    num_quantizers: int


@dataclass(frozen=True, slots=True)
class SpeechDecoderSpec:
    """Codes to samples: the 12 Hz decoder in ``speech_tokenizer/``. The codebook's size is the Talker's."""

    codebook_dim: int
    latent_dim: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    sliding_window: int
    decoder_dim: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    max_position_embeddings: int


@dataclass(frozen=True, slots=True)
class TtsSpec:
    """One checkpoint.

    The CodePredictor has a ``small_to_mtp_projection`` exactly when its width differs from the
    Talker's. ``eos_gain`` multiplies the end-of-speech row of ``codec_head``: 0 makes every request
    run to its frame limit, 1 makes the end as likely as any code, more makes it come sooner.
    ``shard_bytes`` splits the model into files with at most that many bytes of tensors (or one tensor).
    """

    kind: Kind
    model_size: str
    talker: DecoderDimensions
    code_predictor: DecoderDimensions
    mrope_section: tuple[int, int, int]
    text_hidden_size: int
    text_vocab_size: int
    text_base_vocab: int  # ids below this are bytes and merges, the added tokens follow
    num_code_groups: int
    encoder: SpeechEncoderSpec
    decoder: SpeechDecoderSpec
    dtype: StorageType
    speech_dtype: StorageType
    eos_gain: float
    shard_bytes: int | None

    @property
    def codebook_size(self) -> int:
        """Codes per group."""
        return self.talker.vocab_size - TAG_IDS

    @property
    def has_projection(self) -> bool:
        """True if the CodePredictor projects its inputs down from the Talker's width."""
        return self.talker.hidden_size != self.code_predictor.hidden_size

    def __post_init__(self) -> None:
        """Refuse a combination that no checkpoint can have."""
        check_codebook(self.code_predictor.vocab_size, self.talker.vocab_size)
        check_mrope(self.mrope_section, "talker", self.talker.head_dim)
        check_stack("talker", self.talker)
        check_stack("code_predictor", self.code_predictor)
        check_text_vocabulary(self.text_base_vocab, self.text_vocab_size)
        check_code_groups(self.num_code_groups)


_TINY_ENCODER = SpeechEncoderSpec(
    num_filters=4,
    hidden_size=32,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    head_dim=16,
    codebook_dim=8,
    num_quantizers=16,
)
_TINY_DECODER = SpeechDecoderSpec(
    codebook_dim=32,
    latent_dim=40,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=8,
    sliding_window=8,
    decoder_dim=32,
    upsample_rates=(4, 3),
    upsampling_ratios=(2, 2),
    max_position_embeddings=512,
)
_TINY_TALKER = DecoderDimensions(
    num_hidden_layers=2,
    hidden_size=64,
    intermediate_size=96,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    vocab_size=64 + TAG_IDS,
    max_position_embeddings=4096,
    rms_norm_eps=1e-6,
    rope_theta=1_000_000.0,
)
_TINY_CODE_PREDICTOR = replace(
    _TINY_TALKER, hidden_size=48, intermediate_size=80, vocab_size=64, max_position_embeddings=256
)
TINY = TtsSpec(
    kind="custom_voice",
    model_size="1b7",
    talker=_TINY_TALKER,
    code_predictor=_TINY_CODE_PREDICTOR,
    mrope_section=(4, 2, 2),
    text_hidden_size=56,
    text_vocab_size=448,
    text_base_vocab=400,
    num_code_groups=16,
    encoder=_TINY_ENCODER,
    decoder=_TINY_DECODER,
    dtype="F32",
    speech_dtype="F32",
    eos_gain=0.0,
    shard_bytes=None,
)

_PUBLISHED_TALKER = DecoderDimensions(
    num_hidden_layers=28,
    hidden_size=1024,
    intermediate_size=3072,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=2048 + TAG_IDS,
    max_position_embeddings=32768,
    rms_norm_eps=1e-6,
    rope_theta=1_000_000.0,
)
_PUBLISHED_CODE_PREDICTOR = replace(
    _PUBLISHED_TALKER, num_hidden_layers=5, vocab_size=2048, max_position_embeddings=65536
)
PUBLISHED_0B6 = TtsSpec(
    kind="custom_voice",
    model_size="0b6",
    talker=_PUBLISHED_TALKER,
    code_predictor=_PUBLISHED_CODE_PREDICTOR,
    mrope_section=(24, 20, 20),
    text_hidden_size=2048,
    text_vocab_size=151936,
    text_base_vocab=151643,
    num_code_groups=16,
    encoder=SpeechEncoderSpec(
        num_filters=64,
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=8,
        num_attention_heads=8,
        head_dim=64,
        codebook_dim=256,
        num_quantizers=32,
    ),
    decoder=SpeechDecoderSpec(
        codebook_dim=512,
        latent_dim=1024,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=16,
        head_dim=64,
        sliding_window=72,
        decoder_dim=1536,
        upsample_rates=(8, 5, 4, 3),
        upsampling_ratios=(2, 2),
        max_position_embeddings=8000,
    ),
    dtype="BF16",
    speech_dtype="F32",
    eos_gain=1.0,
    shard_bytes=None,
)

#: The named specs: the tiny ones have goldens, the others are for tests of size and speed.
SPECS: Mapping[str, TtsSpec] = MappingProxyType(
    {
        # CustomVoice that keeps instructions, with the projection, never ending by itself.
        "tiny": TINY,
        # CustomVoice of the size that drops instructions: no projection, bfloat16, in shards, ends by itself.
        "tiny_square": replace(
            TINY,
            model_size="0b6",
            code_predictor=replace(_TINY_CODE_PREDICTOR, hidden_size=64),
            dtype="BF16",
            speech_dtype="BF16",
            eos_gain=1.5,
            shard_bytes=400_000,
        ),
        # VoiceDesign: no speakers, no dialects; half precision.
        "tiny_design": replace(TINY, kind="voice_design", dtype="F16", eos_gain=1.0),
        # A CodePredictor of the published size behind a tiny Talker.
        "real_code_predictor": replace(
            TINY,
            talker=replace(_TINY_TALKER, vocab_size=2048 + TAG_IDS),
            code_predictor=_PUBLISHED_CODE_PREDICTOR,
            dtype="BF16",
        ),
        "published_0b6": PUBLISHED_0B6,
        "published_1b7": replace(
            PUBLISHED_0B6,
            model_size="1b7",
            talker=replace(_PUBLISHED_TALKER, hidden_size=2048, intermediate_size=6144),
        ),
    }
)
