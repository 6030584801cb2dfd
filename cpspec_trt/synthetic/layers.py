"""Plans of the layers that language models of both families share, in the published names and shapes.

The laws spread the weights so that greedy choices are clear: rows of normalised inputs give logits with
a standard deviation of ``GAIN``, so the best and the second best of some hundred codes are rarely close.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.synthetic.weights import TensorPlan, fan_in, spread

GAIN = 1.5
EMBEDDING = spread(1.0)
BIAS = spread(0.1)
NORM = spread(0.1, center=1.0)

# Plans one layer's ``mlp`` from its prefix and the layer's number.
Feed = Callable[[str, int], Iterator[TensorPlan]]


def decoder_layers(prefix: str, stack: DecoderDimensions, mlp: Feed) -> Iterator[TensorPlan]:
    """The layers and the final norm of one stack."""
    for layer in range(stack.num_hidden_layers):
        here = f"{prefix}.layers.{layer}"
        yield TensorPlan(f"{here}.input_layernorm.weight", (stack.hidden_size,), NORM)
        yield from _attention(f"{here}.self_attn", stack)
        yield TensorPlan(f"{here}.post_attention_layernorm.weight", (stack.hidden_size,), NORM)
        yield from mlp(f"{here}.mlp", layer)
    yield TensorPlan(f"{prefix}.norm.weight", (stack.hidden_size,), NORM)


def dense_decoder_layers(prefix: str, stack: DecoderDimensions) -> Iterator[TensorPlan]:
    """A stack whose every layer has one gated MLP of ``intermediate_size``."""
    return decoder_layers(prefix, stack, lambda here, _: gated_mlp(here, stack.hidden_size, stack.intermediate_size))


def code_predictor_heads(prefix: str, stack: DecoderDimensions, depths: int) -> Iterator[TensorPlan]:
    """One ``lm_head`` for each RVQ depth behind the first code."""
    for depth in range(depths):
        yield from linear(f"{prefix}.lm_head.{depth}", stack.hidden_size, stack.vocab_size)


def code_predictor_tables(prefix: str, stack: DecoderDimensions, width: int, depths: int) -> Iterator[TensorPlan]:
    """One codec embedding of the Talker's width for each RVQ depth behind the first code."""
    for depth in range(depths):
        yield TensorPlan(f"{prefix}.model.codec_embedding.{depth}.weight", (stack.vocab_size, width), EMBEDDING)


def gated_mlp(prefix: str, hidden: int, inner: int) -> Iterator[TensorPlan]:
    """``down(silu(gate(x)) * up(x))``, without biases."""
    yield from linear(f"{prefix}.gate_proj", hidden, inner)
    yield from linear(f"{prefix}.up_proj", hidden, inner)
    yield from linear(f"{prefix}.down_proj", inner, hidden)


def linear(name: str, inputs: int, outputs: int, bias: bool = False, gain: float = GAIN) -> Iterator[TensorPlan]:
    """A matrix [outputs, inputs] and, if asked for, its bias."""
    yield TensorPlan(f"{name}.weight", (outputs, inputs), fan_in(inputs, gain))
    if bias:
        yield TensorPlan(f"{name}.bias", (outputs,), BIAS)


def layer_norm(name: str, width: int) -> Iterator[TensorPlan]:
    """Scale and bias of a LayerNorm."""
    yield TensorPlan(f"{name}.weight", (width,), NORM)
    yield TensorPlan(f"{name}.bias", (width,), BIAS)


def _attention(prefix: str, stack: DecoderDimensions) -> Iterator[TensorPlan]:
    hidden = stack.hidden_size
    queries = stack.num_attention_heads * stack.head_dim
    keys = stack.num_key_value_heads * stack.head_dim
    yield from linear(f"{prefix}.q_proj", hidden, queries)
    yield from linear(f"{prefix}.k_proj", hidden, keys)
    yield from linear(f"{prefix}.v_proj", hidden, keys)
    yield from linear(f"{prefix}.o_proj", queries, hidden)
    yield TensorPlan(f"{prefix}.q_norm.weight", (stack.head_dim,), NORM)
    yield TensorPlan(f"{prefix}.k_norm.weight", (stack.head_dim,), NORM)
