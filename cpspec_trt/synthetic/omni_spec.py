"""What a synthetic Qwen3-Omni checkpoint looks like: every dimension, and the named sizes that tests use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from cpspec_trt.errors import UsageError
from cpspec_trt.files.engine_config import DecoderDimensions, MoeDimensions
from cpspec_trt.files.tensors import StorageType
from cpspec_trt.synthetic.codec_vocabulary import TAG_IDS
from cpspec_trt.synthetic.spec_checks import (
    check_code_groups,
    check_codebook,
    check_mrope,
    check_stack,
    check_text_vocabulary,
)

# published: config.json with rope_theta and rope_scaling, chat_template.json. transformers_5: the fields that
# transformers 5 writes when it saves (rope_parameters, num_local_experts), chat_template.jinja.
Style = Literal["published", "transformers_5"]


@dataclass(frozen=True, slots=True)
class AudioEncoderSpec:
    """Sound to Thinker rows. Text input never runs it, but a published checkpoint carries it."""

    num_mel_bins: int
    d_model: int
    encoder_layers: int
    encoder_attention_heads: int
    encoder_ffn_dim: int
    downsample_hidden_size: int


@dataclass(frozen=True, slots=True)
class VisionEncoderSpec:
    """Images to Thinker rows. Text input never runs it, but a published checkpoint carries it."""

    depth: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_position_embeddings: int
    deepstack_visual_indexes: tuple[int, ...]
    patch_size: int


@dataclass(frozen=True, slots=True)
class Code2WavSpec:
    """Codes to samples. The codebook's size is the Talker's."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    sliding_window: int
    decoder_dim: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    max_position_embeddings: int

    @property
    def head_dim(self) -> int:
        """Width of one attention head; the published config has no field for it."""
        return self.hidden_size // self.num_attention_heads


@dataclass(frozen=True, slots=True)
class OmniSpec:
    """One checkpoint.

    ``thinker.vocab_size`` counts the text vocabulary, ``talker.vocab_size`` the codec vocabulary;
    ``talker.intermediate_size`` is the inner width of both projections, since no layer is dense.
    ``thinker_eos_gain`` multiplies the row of ``<|im_end|>`` in the Thinker's head, ``codec_eos_gain`` the
    end-of-speech row of ``codec_head``: 0 makes every request run to its limit, 1 makes the end as likely
    as any other token, more makes it come sooner. All other special tokens are never said.
    ``shard_bytes`` splits the model into files with at most that many bytes of tensors (or one tensor).
    """

    thinker: DecoderDimensions
    thinker_moe: MoeDimensions
    talker: DecoderDimensions
    talker_moe: MoeDimensions
    code_predictor: DecoderDimensions
    mrope_section: tuple[int, int, int]
    accept_hidden_layer: int
    text_base_vocab: int  # ids below this are bytes and merges, the added tokens follow
    num_code_groups: int
    audio: AudioEncoderSpec
    vision: VisionEncoderSpec
    code2wav: Code2WavSpec
    style: Style
    dtype: StorageType
    thinker_eos_gain: float
    codec_eos_gain: float
    shard_bytes: int | None

    @property
    def codebook_size(self) -> int:
        """Codes per group."""
        return self.talker.vocab_size - TAG_IDS

    def __post_init__(self) -> None:
        """Refuse a combination that no checkpoint can have."""
        check_codebook(self.code_predictor.vocab_size, self.talker.vocab_size)
        if self.code_predictor.hidden_size != self.talker.hidden_size:
            raise UsageError(
                f"code_predictor.hidden_size is {self.code_predictor.hidden_size}, talker.hidden_size "
                f"{self.talker.hidden_size}; Qwen3-Omni has no projection between them, make the two equal"
            )
        if not 0 < self.accept_hidden_layer < self.thinker.num_hidden_layers:
            raise UsageError(
                f"accept_hidden_layer is {self.accept_hidden_layer}; it must lie between the first and the last of "
                f"{self.thinker.num_hidden_layers} layers"
            )
        if self.talker_moe.dense_layers:
            raise UsageError(f"talker: dense_layers is {self.talker_moe.dense_layers}; every layer has experts")
        check_stack("code_predictor", self.code_predictor)
        check_text_vocabulary(self.text_base_vocab, self.thinker.vocab_size)
        check_code_groups(self.num_code_groups)
        for name, stack, moe in (
            ("thinker", self.thinker, self.thinker_moe),
            ("talker", self.talker, self.talker_moe),
        ):
            check_mrope(self.mrope_section, name, stack.head_dim)
            check_stack(name, stack)
            if moe.num_experts_per_tok > moe.num_experts:
                raise UsageError(f"{name}: {moe.num_experts_per_tok} of {moe.num_experts} experts cannot be chosen")


_TINY_THINKER = DecoderDimensions(
    num_hidden_layers=3,
    hidden_size=64,
    intermediate_size=96,
    num_attention_heads=8,
    num_key_value_heads=2,
    head_dim=16,
    vocab_size=448,
    max_position_embeddings=4096,
    rms_norm_eps=1e-6,
    rope_theta=1_000_000.0,
)
_TINY_THINKER_MOE = MoeDimensions(
    num_experts=8,
    num_experts_per_tok=3,
    moe_intermediate_size=40,
    norm_topk_prob=True,
    shared_expert_intermediate_size=0,
    dense_layers=(),
)
_TINY_TALKER = replace(
    _TINY_THINKER,
    num_hidden_layers=2,
    hidden_size=48,
    intermediate_size=80,
    num_attention_heads=4,
    vocab_size=64 + TAG_IDS,
)
_TINY_TALKER_MOE = MoeDimensions(
    num_experts=6,
    num_experts_per_tok=2,
    moe_intermediate_size=32,
    norm_topk_prob=True,
    shared_expert_intermediate_size=56,
    dense_layers=(),
)
TINY_OMNI = OmniSpec(
    thinker=_TINY_THINKER,
    thinker_moe=_TINY_THINKER_MOE,
    talker=_TINY_TALKER,
    talker_moe=_TINY_TALKER_MOE,
    code_predictor=replace(_TINY_TALKER, intermediate_size=88, vocab_size=64, max_position_embeddings=256),
    mrope_section=(4, 2, 2),
    accept_hidden_layer=2,
    text_base_vocab=400,
    num_code_groups=16,
    audio=AudioEncoderSpec(
        num_mel_bins=16,
        d_model=16,
        encoder_layers=1,
        encoder_attention_heads=2,
        encoder_ffn_dim=32,
        downsample_hidden_size=4,
    ),
    vision=VisionEncoderSpec(
        depth=2,
        hidden_size=16,
        intermediate_size=32,
        num_heads=2,
        num_position_embeddings=16,
        deepstack_visual_indexes=(0,),
        patch_size=4,
    ),
    code2wav=Code2WavSpec(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        sliding_window=8,
        decoder_dim=32,
        upsample_rates=(4, 3),
        upsampling_ratios=(2, 2),
        max_position_embeddings=512,
    ),
    style="published",
    dtype="F32",
    thinker_eos_gain=0.0,
    codec_eos_gain=0.0,
    shard_bytes=None,
)

_PUBLISHED_THINKER = DecoderDimensions(
    num_hidden_layers=48,
    hidden_size=2048,
    intermediate_size=768,
    num_attention_heads=32,
    num_key_value_heads=4,
    head_dim=128,
    vocab_size=152064,
    max_position_embeddings=65536,
    rms_norm_eps=1e-6,
    rope_theta=1_000_000.0,
)
_PUBLISHED_TALKER = replace(
    _PUBLISHED_THINKER,
    num_hidden_layers=20,
    hidden_size=1024,
    intermediate_size=2048,
    num_attention_heads=16,
    num_key_value_heads=2,
    vocab_size=2048 + TAG_IDS,
)
PUBLISHED_30B = OmniSpec(
    thinker=_PUBLISHED_THINKER,
    thinker_moe=MoeDimensions(
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=768,
        norm_topk_prob=True,
        shared_expert_intermediate_size=0,
        dense_layers=(),
    ),
    talker=_PUBLISHED_TALKER,
    talker_moe=MoeDimensions(
        num_experts=128,
        num_experts_per_tok=6,
        moe_intermediate_size=384,
        norm_topk_prob=True,
        shared_expert_intermediate_size=768,
        dense_layers=(),
    ),
    code_predictor=replace(
        _PUBLISHED_TALKER,
        num_hidden_layers=5,
        intermediate_size=3072,
        num_key_value_heads=8,
        vocab_size=2048,
        max_position_embeddings=32768,
    ),
    mrope_section=(24, 20, 20),
    accept_hidden_layer=24,
    text_base_vocab=151643,
    num_code_groups=16,
    audio=AudioEncoderSpec(
        num_mel_bins=128,
        d_model=1280,
        encoder_layers=32,
        encoder_attention_heads=20,
        encoder_ffn_dim=5120,
        downsample_hidden_size=480,
    ),
    vision=VisionEncoderSpec(
        depth=27,
        hidden_size=1152,
        intermediate_size=4304,
        num_heads=16,
        num_position_embeddings=2304,
        deepstack_visual_indexes=(8, 16, 24),
        patch_size=16,
    ),
    code2wav=Code2WavSpec(
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=16,
        sliding_window=72,
        decoder_dim=1536,
        upsample_rates=(8, 5, 4, 3),
        upsampling_ratios=(2, 2),
        max_position_embeddings=8000,
    ),
    style="published",
    dtype="BF16",
    thinker_eos_gain=1.0,
    codec_eos_gain=1.0,
    shard_bytes=5_000_000_000,
)

#: The named specs: the tiny ones have goldens, the others are for tests of size and speed.
OMNI_SPECS: Mapping[str, OmniSpec] = MappingProxyType(
    {
        # Neither text nor speech ends by itself.
        "tiny": TINY_OMNI,
        # Both end by themselves: bfloat16, in shards, saved by transformers 5, one Thinker layer without experts.
        "tiny_ending": replace(
            TINY_OMNI,
            thinker_moe=replace(_TINY_THINKER_MOE, dense_layers=(1,)),
            talker_moe=replace(_TINY_TALKER_MOE, norm_topk_prob=False),
            style="transformers_5",
            dtype="BF16",
            thinker_eos_gain=2.0,
            codec_eos_gain=1.6,
            shard_bytes=400_000,
        ),
        # Half precision; only the text ends, often before its first word.
        "tiny_terse": replace(
            TINY_OMNI,
            thinker_moe=replace(_TINY_THINKER_MOE, norm_topk_prob=False),
            dtype="F16",
            thinker_eos_gain=6.0,
        ),
        # One Thinker layer with experts of the published size, and a small one, in an otherwise tiny checkpoint.
        "real_thinker_layer": replace(
            TINY_OMNI,
            thinker=replace(_PUBLISHED_THINKER, num_hidden_layers=2, vocab_size=_TINY_THINKER.vocab_size),
            thinker_moe=replace(PUBLISHED_30B.thinker_moe, dense_layers=(1,)),
            talker=replace(_TINY_TALKER, head_dim=128),
            mrope_section=PUBLISHED_30B.mrope_section,
            accept_hidden_layer=1,
            dtype="BF16",
        ),
        # One Talker layer of the published size and a CodePredictor layer of its width.
        "real_talker_layer": replace(
            TINY_OMNI,
            thinker=replace(_TINY_THINKER, head_dim=128),
            talker=replace(_PUBLISHED_TALKER, num_hidden_layers=1),
            talker_moe=PUBLISHED_30B.talker_moe,
            code_predictor=replace(PUBLISHED_30B.code_predictor, num_hidden_layers=1),
            mrope_section=PUBLISHED_30B.mrope_section,
            dtype="BF16",
        ),
        "published_30b": PUBLISHED_30B,
    }
)
