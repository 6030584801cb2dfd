"""Fields that the configurations of both families have in common: decoder stacks, rotary positions,
CodePredictor, code2wav."""

from __future__ import annotations

import math
from typing import TypedDict

from cpspec_trt.checkpoint.section import Section
from cpspec_trt.files.engine_config import WINDOWS, CodePredictorConfig, DecoderDimensions


class Code2WavFields(TypedDict):
    """What the decoders of both families have in common; names as in their configs."""

    num_quantizers: int
    codebook_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    sliding_window: int
    decoder_dim: int
    rms_norm_eps: float
    rope_theta: float
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    samples_per_frame: int


def read_code2wav_fields(section: Section, head_dim: int) -> Code2WavFields:
    """The common part of a decoder from codes to samples.

    Args:
        section: of the decoder.
        head_dim: width of an attention head, which only one family writes down.

    Raises:
        CheckpointError: a needed field is missing or wrong.
        UnsupportedError: a feature that the graphs do not contain.
    """
    check_plain_layers(section)
    check_heads(section, head_dim)
    rates, ratios = section.integers("upsample_rates"), section.integers("upsampling_ratios")
    return Code2WavFields(
        num_quantizers=section.integer("num_quantizers", minimum=2),
        codebook_size=section.integer("codebook_size"),
        hidden_size=section.integer("hidden_size"),
        intermediate_size=section.integer("intermediate_size"),
        num_hidden_layers=section.integer("num_hidden_layers"),
        num_attention_heads=section.integer("num_attention_heads"),
        num_key_value_heads=section.integer("num_key_value_heads"),
        head_dim=head_dim,
        sliding_window=section.integer("sliding_window", minimum=WINDOWS[0], limit=WINDOWS[1] + 1),
        decoder_dim=section.integer("decoder_dim"),
        rms_norm_eps=section.number("rms_norm_eps"),
        rope_theta=read_rope_theta(section),
        upsample_rates=rates,
        upsampling_ratios=ratios,
        samples_per_frame=math.prod(ratios) * math.prod(rates),
    )


def read_code_predictor(talker: Section, model: str, fingerprint: str, talker_hidden_size: int) -> CodePredictorConfig:
    """The CodePredictor's config, from ``code_predictor_config`` inside the Talker's section.

    Raises:
        CheckpointError: a needed field is missing or wrong, or the Talker has another number of code groups.
        UnsupportedError: as ``read_decoder``.
    """
    predictor = talker.section("code_predictor_config")
    groups = predictor.integer("num_code_groups", minimum=2)
    expected = talker.integer("num_code_groups")
    if groups != expected:
        raise predictor.error("num_code_groups", f"is {groups}, but talker_config.num_code_groups is {expected}")
    return CodePredictorConfig(
        model=model,
        checkpoint_fingerprint=fingerprint,
        decoder=read_decoder(predictor),
        num_code_groups=groups,
        talker_hidden_size=talker_hidden_size,
    )


def read_decoder(section: Section) -> DecoderDimensions:
    """The dimensions of a decoder stack.

    Raises:
        CheckpointError: a needed field is missing or wrong.
        UnsupportedError: a feature that the graphs do not contain.
    """
    check_plain_layers(section)
    head_dim = section.integer("head_dim")
    check_heads(section, head_dim)
    layers = section.integer("num_hidden_layers")
    section.require("layer_types", ["full_attention"] * layers)
    return DecoderDimensions(
        num_hidden_layers=layers,
        hidden_size=section.integer("hidden_size"),
        intermediate_size=section.integer("intermediate_size"),
        num_attention_heads=section.integer("num_attention_heads"),
        num_key_value_heads=section.integer("num_key_value_heads"),
        head_dim=head_dim,
        vocab_size=section.integer("vocab_size"),
        max_position_embeddings=section.integer("max_position_embeddings"),
        rms_norm_eps=section.number("rms_norm_eps"),
        rope_theta=read_rope_theta(section),
    )


def check_plain_layers(section: Section) -> None:
    """Refuse what the graphs do not contain; a switch that is absent is off."""
    section.text("hidden_act")
    section.require("hidden_act", "silu")
    section.require("attention_bias", False)
    section.require("use_sliding_window", False)


def check_heads(section: Section, head_dim: int) -> None:
    """Refuse numbers of heads, or a width of one, that attention cannot have."""
    heads, kv_heads = section.integer("num_attention_heads"), section.integer("num_key_value_heads")
    if heads % kv_heads:
        raise section.error("num_key_value_heads", f"is {kv_heads}, which does not divide {heads} attention heads")
    if head_dim % 2:
        raise section.error("head_dim", f"is {head_dim}, rotary positions need an even number")


def read_rope_theta(section: Section) -> float:
    """The rotary base, from ``rope_theta`` (with ``rope_scaling``) or from the newer ``rope_parameters``."""
    newer, scaling = section.optional("rope_parameters"), section.optional("rope_scaling")
    for kind in (newer, scaling):
        if kind is not None:
            kind.require("rope_type", "default")
            kind.require("type", "default")
    older = section.value.get("rope_theta") is not None
    if newer is None or (older and newer.value.get("rope_theta") is None):
        return section.number("rope_theta")
    theta = newer.number("rope_theta")
    if older and section.number("rope_theta") != theta:
        raise section.error("rope_theta", f"is {section.number('rope_theta')}, but rope_parameters has {theta}")
    return theta
