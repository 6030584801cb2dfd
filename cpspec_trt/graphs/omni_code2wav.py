"""Authors code2wav of Qwen3-Omni: codes in, samples out, every chunk exact.

The decoder is that of Qwen3-TTS but for the transposed convolutions of stride s and kernel 2 s. There they
lose their last s columns, here their first s as well, so that the first column left is the first one that
reads two input columns. The causal graph serves all the same: the columns that the trims take from the
start of a sequence are computed and count as absent. They add up: if m columns are absent before a
rate s, then (m + 1) s are absent behind it.

No absent column may reach one that exists. A transposed convolution sees to that itself; a convolution that
looks back must find zeros there, the padding to the left of the first column in the whole decode. So the
input of every such convolution is multiplied by 0 where a column is absent and by 1 elsewhere. The state
``state_frames`` says where in its sequence each row of a batch is: rows may start at different times. On
a CPU the products take one to three hundredths of a pass; in return every chunk has the same shapes.
"""

from __future__ import annotations

import math

from onnx import TensorProto

from cpspec_trt.checkpoint.qwen3_omni import trimmed_samples
from cpspec_trt.files.engine_config import OmniCode2WavConfig
from cpspec_trt.files.tensors import TensorSet
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.causal_convolution import to_columns
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights
from cpspec_trt.graphs.speech_decoder import (
    code_rows,
    decoder_inputs,
    output_waveform,
    sliding_transformer,
    upsample,
    vocoder,
)


def author_omni_code2wav(config: OmniCode2WavConfig, tensors: TensorSet) -> GraphAuthor:
    """The graph of code2wav, with the inputs and outputs of ``author_code2wav``.

    The first ``trimmed_samples`` samples of a sequence do not exist: the caller drops them from the waveform.
    ``state_frames`` [batch, 1, 1, 1] is the number of frames of each sequence before this chunk.

    Args:
        config: the decoder's dimensions.
        tensors: the checkpoint, in which the decoder is called ``code2wav``.

    Raises:
        CheckpointError: a tensor is missing or of another shape or type than ``config`` asks for.
    """
    author = GraphAuthor("code2wav")
    weights = CheckpointWeights(author, tensors)
    inputs, hidden = decoder_inputs(author, config), config.hidden_size
    table = weights.plain("code2wav.code_embedding.weight", (config.num_quantizers * config.codebook_size, hidden))
    rows = code_rows(author, config, inputs.codes, table)
    x = author.op("ReduceMean", rows, author.constant([1]), keepdims=0)
    x = sliding_transformer(weights, "code2wav.pre_transformer", config, x, inputs)
    x = upsample(weights, "code2wav.upsample", config, to_columns(author, x), hidden)
    present = _present(author, config, inputs.codes)
    output_waveform(author, vocoder(weights, "code2wav.decoder", config, x, hidden, present))
    return author


def _present(author: GraphAuthor, config: OmniCode2WavConfig, codes: str) -> list[str]:
    """For each rate float32 [batch, 1, 1, columns behind it]: 0 for absent columns, otherwise 1."""
    before = author.input("state_frames", ["batch", 1, 1, 1])
    frames = author.op("Shape", codes, start=2, end=3)
    after = author.op("Add", before, author.op("Cast", frames, to=TensorProto.FLOAT))
    author.output("next_state_frames", after, ["batch", 1, 1, 1])
    before, frames = author.op("Cast", before, to=TensorProto.INT64), author.op("Squeeze", frames)
    masks = []
    for stage in range(1, len(config.upsample_rates) + 1):
        rates = config.upsample_rates[:stage]
        per_frame, absent = math.prod(config.upsampling_ratios) * math.prod(rates), trimmed_samples(rates)
        columns = author.op("Mul", frames, author.constant(per_frame))
        chunk = author.op("Range", author.constant(0), columns, author.constant(1))
        first = author.op("Sub", author.constant(absent), author.op("Mul", before, author.constant(per_frame)))
        masks.append(author.op("Cast", author.op("GreaterOrEqual", chunk, first), to=TensorProto.FLOAT))
    return masks
