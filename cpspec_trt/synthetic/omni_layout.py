"""Tensors of Qwen3-Omni's ``model.safetensors``, as published: every expert is stored by itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cpspec_trt.files.engine_config import DecoderDimensions, MoeDimensions
from cpspec_trt.synthetic.codec_vocabulary import codec_eos_id
from cpspec_trt.synthetic.layers import (
    EMBEDDING,
    GAIN,
    code_predictor_heads,
    code_predictor_tables,
    decoder_layers,
    dense_decoder_layers,
    gated_mlp,
    linear,
)
from cpspec_trt.synthetic.omni_encoders_layout import audio_tower_tensors, visual_tensors
from cpspec_trt.synthetic.omni_spec import OmniSpec
from cpspec_trt.synthetic.vocoder_layout import transformer_layers, upsampling, vocoder
from cpspec_trt.synthetic.weights import TensorPlan, fan_in, spread

_END = 2  # <|im_end|>, counted from the first added token


def omni_tensors(spec: OmniSpec) -> list[TensorPlan]:
    """Every tensor of the checkpoint, in the order in which it is stored."""
    width = spec.thinker.hidden_size
    return [
        *_thinker(spec),
        *audio_tower_tensors("thinker.audio_tower", spec.audio, width),
        *visual_tensors("thinker.visual", spec.vision, width),
        *_talker(spec),
        *_code_predictor(spec),
        *_code2wav(spec),
    ]


def _thinker(spec: OmniSpec) -> Iterator[TensorPlan]:
    stack = spec.thinker
    table = (stack.vocab_size, stack.hidden_size)
    yield TensorPlan("thinker.model.embed_tokens.weight", table, EMBEDDING)
    yield from decoder_layers("thinker.model", stack, partial(_feed, stack=stack, moe=spec.thinker_moe))
    added = range(spec.text_base_vocab, stack.vocab_size)
    end = spec.text_base_vocab + _END
    yield TensorPlan(
        "thinker.lm_head.weight",
        table,
        fan_in(stack.hidden_size, GAIN),
        row_factors=tuple((token, spec.thinker_eos_gain if token == end else 0.0) for token in added),
    )


def _talker(spec: OmniSpec) -> Iterator[TensorPlan]:
    stack, inner = spec.talker, spec.talker.intermediate_size
    table = (stack.vocab_size, stack.hidden_size)
    for name in ("text_projection", "hidden_projection"):
        yield from linear(f"talker.{name}.linear_fc1", spec.thinker.hidden_size, inner, bias=True)
        yield from linear(f"talker.{name}.linear_fc2", inner, stack.hidden_size, bias=True)
    yield TensorPlan("talker.model.codec_embedding.weight", table, EMBEDDING)
    yield from decoder_layers("talker.model", stack, partial(_feed, stack=stack, moe=spec.talker_moe))
    yield TensorPlan(
        "talker.codec_head.weight",
        table,
        fan_in(stack.hidden_size, GAIN),
        row_factors=((codec_eos_id(spec.codebook_size), spec.codec_eos_gain),),
    )


def _feed(here: str, layer: int, stack: DecoderDimensions, moe: MoeDimensions) -> Iterator[TensorPlan]:
    """The router, the routed experts and, if there is one, the shared expert with its gate; or a dense layer."""
    hidden = stack.hidden_size
    if layer in moe.dense_layers:
        yield from gated_mlp(here, hidden, stack.intermediate_size)
        return
    yield from linear(f"{here}.gate", hidden, moe.num_experts)
    for expert in range(moe.num_experts):
        yield from gated_mlp(f"{here}.experts.{expert}", hidden, moe.moe_intermediate_size)
    if moe.shared_expert_intermediate_size:
        yield from gated_mlp(f"{here}.shared_expert", hidden, moe.shared_expert_intermediate_size)
        yield from linear(f"{here}.shared_expert_gate", hidden, 1)


def _code_predictor(spec: OmniSpec) -> Iterator[TensorPlan]:
    here, stack, depths = "talker.code_predictor", spec.code_predictor, spec.num_code_groups - 1
    yield from code_predictor_tables(here, stack, stack.hidden_size, depths)
    yield from dense_decoder_layers(f"{here}.model", stack)
    yield from code_predictor_heads(here, stack, depths)


def _code2wav(spec: OmniSpec) -> Iterator[TensorPlan]:
    shape, groups = spec.code2wav, spec.num_code_groups
    # The decoder takes the mean over the groups: spread by sqrt(groups) its input has unit scale.
    table = (spec.codebook_size * groups, shape.hidden_size)
    yield TensorPlan("code2wav.code_embedding.weight", table, spread(groups**0.5))
    yield from transformer_layers("code2wav.pre_transformer", shape)
    yield from upsampling("code2wav.upsample", shape.hidden_size, shape.upsampling_ratios)
    yield from vocoder("code2wav.decoder", shape.hidden_size, shape.decoder_dim, shape.upsample_rates)
