"""Tensors of ``model.safetensors``: the Talker and its CodePredictor, in the published names and shapes.

The laws spread the weights so that greedy choices are clear: rows of normalised inputs give logits with
a standard deviation of ``_GAIN``, so the best and the second best of some hundred codes are rarely close.
"""

from __future__ import annotations

from collections.abc import Iterator

from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.synthetic.configs import codec_eos_id
from cpspec_trt.synthetic.spec import TtsSpec
from cpspec_trt.synthetic.weights import TensorPlan, fan_in, spread

_GAIN = 1.5
_EMBEDDING = spread(1.0)
_BIAS = spread(0.1)
_NORM = spread(0.1, center=1.0)


def language_model_tensors(spec: TtsSpec) -> list[TensorPlan]:
    """Every tensor of the model beside the speech tokenizer, in the order in which it is stored."""
    return [*_talker(spec), *_code_predictor(spec)]


def _talker(spec: TtsSpec) -> Iterator[TensorPlan]:
    talker, text = spec.talker, spec.text_hidden_size
    yield TensorPlan("talker.model.text_embedding.weight", (spec.text_vocab_size, text), _EMBEDDING)
    yield from _linear("talker.text_projection.linear_fc1", text, text, bias=True)
    yield from _linear("talker.text_projection.linear_fc2", text, talker.hidden_size, bias=True)
    yield TensorPlan("talker.model.codec_embedding.weight", (talker.vocab_size, talker.hidden_size), _EMBEDDING)
    yield from _decoder_layers("talker.model", talker)
    yield TensorPlan(
        "talker.codec_head.weight",
        (talker.vocab_size, talker.hidden_size),
        fan_in(talker.hidden_size, _GAIN),
        row_factors=((codec_eos_id(spec), spec.eos_gain),),
    )


def _code_predictor(spec: TtsSpec) -> Iterator[TensorPlan]:
    stack, width = spec.code_predictor, spec.talker.hidden_size
    if spec.has_projection:
        yield from _linear(
            "talker.code_predictor.small_to_mtp_projection", width, stack.hidden_size, bias=True, gain=1.0
        )
    for depth in range(spec.num_code_groups - 1):
        name = f"talker.code_predictor.model.codec_embedding.{depth}.weight"
        yield TensorPlan(name, (stack.vocab_size, width), _EMBEDDING)
    yield from _decoder_layers("talker.code_predictor.model", stack)
    for depth in range(spec.num_code_groups - 1):
        yield from _linear(f"talker.code_predictor.lm_head.{depth}", stack.hidden_size, stack.vocab_size)


def _decoder_layers(prefix: str, stack: DecoderDimensions) -> Iterator[TensorPlan]:
    """The layers and the final norm of one stack."""
    hidden, inner = stack.hidden_size, stack.intermediate_size
    queries = stack.num_attention_heads * stack.head_dim
    keys = stack.num_key_value_heads * stack.head_dim
    for layer in range(stack.num_hidden_layers):
        here = f"{prefix}.layers.{layer}"
        yield TensorPlan(f"{here}.input_layernorm.weight", (hidden,), _NORM)
        yield from _linear(f"{here}.self_attn.q_proj", hidden, queries)
        yield from _linear(f"{here}.self_attn.k_proj", hidden, keys)
        yield from _linear(f"{here}.self_attn.v_proj", hidden, keys)
        yield from _linear(f"{here}.self_attn.o_proj", queries, hidden)
        yield TensorPlan(f"{here}.self_attn.q_norm.weight", (stack.head_dim,), _NORM)
        yield TensorPlan(f"{here}.self_attn.k_norm.weight", (stack.head_dim,), _NORM)
        yield TensorPlan(f"{here}.post_attention_layernorm.weight", (hidden,), _NORM)
        yield from _linear(f"{here}.mlp.gate_proj", hidden, inner)
        yield from _linear(f"{here}.mlp.up_proj", hidden, inner)
        yield from _linear(f"{here}.mlp.down_proj", inner, hidden)
    yield TensorPlan(f"{prefix}.norm.weight", (hidden,), _NORM)


def _linear(name: str, inputs: int, outputs: int, bias: bool = False, gain: float = _GAIN) -> Iterator[TensorPlan]:
    yield TensorPlan(f"{name}.weight", (outputs, inputs), fan_in(inputs, gain))
    if bias:
        yield TensorPlan(f"{name}.bias", (outputs,), _BIAS)
