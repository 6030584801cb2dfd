"""Tensors of Qwen3-TTS's ``model.safetensors``: the Talker and its CodePredictor, as published."""

from __future__ import annotations

from collections.abc import Iterator

from cpspec_trt.synthetic.codec_vocabulary import codec_eos_id
from cpspec_trt.synthetic.layers import (
    EMBEDDING,
    GAIN,
    code_predictor_heads,
    code_predictor_tables,
    dense_decoder_layers,
    linear,
)
from cpspec_trt.synthetic.spec import TtsSpec
from cpspec_trt.synthetic.weights import TensorPlan, fan_in


def language_model_tensors(spec: TtsSpec) -> list[TensorPlan]:
    """Every tensor of the model beside the speech tokenizer, in the order in which it is stored."""
    return [*_talker(spec), *_code_predictor(spec)]


def _talker(spec: TtsSpec) -> Iterator[TensorPlan]:
    talker, text = spec.talker, spec.text_hidden_size
    yield TensorPlan("talker.model.text_embedding.weight", (spec.text_vocab_size, text), EMBEDDING)
    yield from linear("talker.text_projection.linear_fc1", text, text, bias=True)
    yield from linear("talker.text_projection.linear_fc2", text, talker.hidden_size, bias=True)
    yield TensorPlan("talker.model.codec_embedding.weight", (talker.vocab_size, talker.hidden_size), EMBEDDING)
    yield from dense_decoder_layers("talker.model", talker)
    yield TensorPlan(
        "talker.codec_head.weight",
        (talker.vocab_size, talker.hidden_size),
        fan_in(talker.hidden_size, GAIN),
        row_factors=((codec_eos_id(spec.codebook_size), spec.eos_gain),),
    )


def _code_predictor(spec: TtsSpec) -> Iterator[TensorPlan]:
    here, stack, width = "talker.code_predictor", spec.code_predictor, spec.talker.hidden_size
    depths = spec.num_code_groups - 1
    if spec.has_projection:
        yield from linear(f"{here}.small_to_mtp_projection", width, stack.hidden_size, bias=True, gain=1.0)
    yield from code_predictor_tables(here, stack, width, depths)
    yield from dense_decoder_layers(f"{here}.model", stack)
    yield from code_predictor_heads(here, stack, depths)
