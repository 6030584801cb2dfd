"""Authors code2wav of Qwen3-TTS, the 12 Hz decoder: codes in, samples out, every chunk exact.

The decoder is strictly causal: a frame gives exactly its samples, and needs none after it.
"""

from __future__ import annotations

import numpy as np

from cpspec_trt.files.engine_config import Code2WavConfig
from cpspec_trt.files.tensors import TensorSet
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.causal_convolution import causal_convolution, to_columns, to_rows
from cpspec_trt.graphs.checkpoint_weights import Array, CheckpointWeights
from cpspec_trt.graphs.layers import linear
from cpspec_trt.graphs.speech_decoder import (
    code_rows,
    decoder_inputs,
    output_waveform,
    sliding_transformer,
    upsample,
    vocoder,
)

_USAGE_FLOOR = np.float32(1e-5)
_PRE_KERNEL = 3


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
    inputs, latent, hidden = decoder_inputs(author, config), config.latent_dim, config.hidden_size
    x = _embed(weights, config, inputs.codes)
    x = causal_convolution(weights, "decoder.pre_conv.conv", x, config.codebook_dim, latent, _PRE_KERNEL)
    x = linear(weights, "decoder.pre_transformer.input_proj", to_rows(author, x), latent, hidden)
    x = sliding_transformer(weights, "decoder.pre_transformer", config, x, inputs)
    x = linear(weights, "decoder.pre_transformer.output_proj", x, hidden, latent)
    x = upsample(weights, "decoder.upsample", config, to_columns(author, x), latent)
    output_waveform(author, vocoder(weights, "decoder.decoder", config, x, latent))
    return author


def _embed(weights: CheckpointWeights, config: Code2WavConfig, codes: str) -> str:
    """Sum of the code embeddings: group 0 through one projection, the sum of the others through another.

    Both projections are one product, of the two vectors side by side with the two matrices one upon the other.
    """
    author, groups, width = weights.author, config.num_quantizers, config.codebook_dim // 2
    rows = code_rows(author, config, codes, _codebooks(weights, config))
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
    weights.tensors.check_length("decoder.quantizer.rvq_rest.vq.layers", config.num_quantizers - 1)
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
