"""Authors code2wav of Qwen3-TTS, the 12 Hz decoder: codes in, samples out, every chunk exact.

The decoder is strictly causal. Whatever a frame needs from the past enters and leaves the graph as
state (keys and values of the attention window, left context of every convolution), so a sequence cut
into chunks of any lengths gives the samples of the whole, and nothing is computed twice.
"""

from __future__ import annotations

import numpy as np

from cpspec_trt.files.engine_config import Code2WavConfig
from cpspec_trt.files.tensors import TensorSet
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.causal_convolution import (
    RESIDUAL_DILATIONS,
    carry,
    causal_convolution,
    causal_transposed_convolution,
    conv_next,
    residual_unit,
    snake,
    to_columns,
    to_rows,
)
from cpspec_trt.graphs.checkpoint_weights import Array, CheckpointWeights
from cpspec_trt.graphs.layers import folded_attention, folded_mask, gated_mlp, linear, rms_norm, swap_heads

_USAGE_FLOOR = np.float32(1e-5)
_PRE_KERNEL = 3
_VOCODER_KERNEL = 7


def author_code2wav(config: Code2WavConfig, tensors: TensorSet) -> GraphAuthor:
    """The graph of code2wav.

    Inputs: codes int64 [batch, groups, frames], each in 0 … codebook_size - 1 (the caller checks: codes
    outside pick rows of other groups); attention_mask [batch, frames, window - 1 + frames], additive;
    rope_cos, rope_sin [batch, frames, head_dim / 2]; state_*, zeros at the start of a sequence.
    Outputs: waveform [batch, 1, frames * samples_per_frame] within ±1; next_state_*, shaped as state_*.

    Args:
        config: the decoder's dimensions.
        tensors: ``speech_tokenizer/model.safetensors``.

    Raises:
        CheckpointError: a tensor is missing or of another shape or type than ``config`` asks for.
    """
    author = GraphAuthor("code2wav")
    weights = CheckpointWeights(author, tensors)
    codes = author.input("codes", ["batch", config.num_quantizers, "frames"], np.int64)
    mask = author.input("attention_mask", ["batch", "frames", "keys"])
    rope = tuple(author.input(name, ["batch", "frames", config.head_dim // 2]) for name in ("rope_cos", "rope_sin"))
    x = _embed(weights, config, codes)
    x = causal_convolution(weights, "decoder.pre_conv.conv", x, config.codebook_dim, config.latent_dim, _PRE_KERNEL)
    x = to_columns(author, _transformer(weights, config, to_rows(author, x), mask, rope))
    for stage, ratio in enumerate(config.upsampling_ratios):
        here, width = f"decoder.upsample.{stage}", config.latent_dim
        x = causal_transposed_convolution(weights, f"{here}.0.conv", x, width, width, ratio, ratio)
        x = conv_next(weights, f"{here}.1", x, width)
    x = _vocoder(weights, config, x)
    samples = author.op("Squeeze", x, author.constant([2]))
    samples = author.op("Clip", samples, author.constant(-1.0), author.constant(1.0))
    author.output("waveform", samples, ["batch", 1, "samples"])
    return author


def _embed(weights: CheckpointWeights, config: Code2WavConfig, codes: str) -> str:
    """Sum of the code embeddings: group 0 through one projection, the sum of the others through another.

    Both projections are one product, of the two vectors side by side with the two matrices one upon the other.
    """
    author, groups, width = weights.author, config.num_quantizers, config.codebook_dim // 2
    offsets = author.constant(np.arange(groups)[:, None] * config.codebook_size)
    rows = author.op("Gather", _codebooks(weights, config), author.op("Add", codes, offsets))
    first, rest = author.op_many("Split", rows, author.constant([1, groups - 1]), outputs=2, axis=1)
    rest = author.op("ReduceSum", rest, author.constant([1]), keepdims=1)
    names = [f"decoder.quantizer.{part}.output_proj.weight" for part in ("rvq_first", "rvq_rest")]
    projection = weights.made(
        "decoder.quantizer.output_proj.weight",
        (2 * width, config.codebook_dim),
        dict.fromkeys(names, (config.codebook_dim, width, 1)),
        lambda tensors: np.concatenate([tensors[name][:, :, 0].T for name in names]),
    )
    x = author.op("MatMul", author.op("Concat", first, rest, axis=-1), projection)
    return author.op("Transpose", x, perm=[0, 3, 1, 2])


def _codebooks(weights: CheckpointWeights, config: Code2WavConfig) -> str:
    """One table of all groups, [groups * codebook_size, codebook_dim / 2]: embedding_sum / max(cluster_usage, 1e-5)."""
    entries, width = config.codebook_size, config.codebook_dim // 2
    layers = ["rvq_first.vq.layers.0", *(f"rvq_rest.vq.layers.{depth}" for depth in range(config.num_quantizers - 1))]
    books = [f"decoder.quantizer.{layer}._codebook" for layer in layers]
    parts: dict[str, tuple[int, ...]] = {f"{book}.embedding_sum": (entries, width) for book in books}
    parts |= {f"{book}.cluster_usage": (entries,) for book in books}

    def embeddings(tensors: dict[str, Array]) -> Array:
        table = np.empty((len(books), entries, width), np.float32)
        for row, book in zip(table, books, strict=True):
            usage = np.maximum(tensors[f"{book}.cluster_usage"], _USAGE_FLOOR)
            np.divide(tensors[f"{book}.embedding_sum"], usage[:, None], out=row)
        return table.reshape(-1, width)

    return weights.made("decoder.quantizer.codebooks", (len(books) * entries, width), parts, embeddings)


def _transformer(weights: CheckpointWeights, config: Code2WavConfig, x: str, mask: str, rope: tuple[str, ...]) -> str:
    """The sliding-window transformer, [batch, frames, latent] -> the same."""
    author, here, hidden, epsilon = weights.author, "decoder.pre_transformer", config.hidden_size, config.rms_norm_eps
    x = linear(weights, f"{here}.input_proj", x, config.latent_dim, hidden)
    mask = folded_mask(author, mask, config.num_attention_heads, config.num_key_value_heads)
    for layer in range(config.num_hidden_layers):
        at = f"{here}.layers.{layer}"
        with author.scope(f"layer_{layer}"):
            y = rms_norm(weights, f"{at}.input_layernorm", x, hidden, epsilon)
            y = _attention(weights, config, layer, y, mask, rope)
            x = _add_scaled(weights, f"{at}.self_attn_layer_scale", x, y, hidden)
            y = rms_norm(weights, f"{at}.post_attention_layernorm", x, hidden, epsilon)
            y = gated_mlp(weights, f"{at}.mlp", y, hidden, config.intermediate_size)
            x = _add_scaled(weights, f"{at}.mlp_layer_scale", x, y, hidden)
    x = rms_norm(weights, f"{here}.norm", x, hidden, epsilon)
    return linear(weights, f"{here}.output_proj", x, hidden, config.latent_dim)


def _attention(
    weights: CheckpointWeights, config: Code2WavConfig, layer: int, x: str, mask: str, rope: tuple[str, ...]
) -> str:
    """Attention of each frame to itself and the ``sliding_window - 1`` frames before it."""
    author, at = weights.author, f"decoder.pre_transformer.layers.{layer}.self_attn"
    heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim

    def split(name: str, count: int) -> str:
        y = linear(weights, f"{at}.{name}", x, config.hidden_size, count * width, bias=False)
        return swap_heads(author, author.op("Reshape", y, author.constant([0, 0, count, width])))

    window = (kv_heads, config.sliding_window - 1, width)
    query = author.op("RotaryEmbedding", split("q_proj", heads), *rope)
    key = author.op("RotaryEmbedding", split("k_proj", kv_heads), *rope)
    key = carry(author, f"key_{layer}", key, window, axis=2)
    value = carry(author, f"value_{layer}", split("v_proj", kv_heads), window, axis=2)
    y = folded_attention(author, query, key, value, mask, heads, kv_heads, width)
    return linear(weights, f"{at}.o_proj", y, heads * width, config.hidden_size, bias=False)


def _add_scaled(weights: CheckpointWeights, name: str, x: str, y: str, width: int) -> str:
    """x + scale * y (LayerScale, arXiv 2103.17239)."""
    author = weights.author
    return author.op("Add", x, author.op("Mul", y, weights.plain(f"{name}.scale", (width,))))


def _vocoder(weights: CheckpointWeights, config: Code2WavConfig, x: str) -> str:
    """Widens time by each of ``upsample_rates`` and halves the channels each time; [batch, 1, 1, samples]."""
    here, wide = "decoder.decoder", config.decoder_dim
    x = causal_convolution(weights, f"{here}.0.conv", x, config.latent_dim, wide, _VOCODER_KERNEL)
    for stage, rate in enumerate(config.upsample_rates, start=1):
        block, narrow = f"{here}.{stage}.block", wide // 2
        x = snake(weights, f"{block}.0", x, wide)
        x = causal_transposed_convolution(weights, f"{block}.1.conv", x, wide, narrow, 2 * rate, rate)
        for unit, dilation in enumerate(RESIDUAL_DILATIONS, start=2):
            x = residual_unit(weights, f"{block}.{unit}", x, narrow, dilation)
        wide = narrow
    last = len(config.upsample_rates) + 1
    x = snake(weights, f"{here}.{last}", x, wide)
    return causal_convolution(weights, f"{here}.{last + 1}.conv", x, wide, 1, _VOCODER_KERNEL)
