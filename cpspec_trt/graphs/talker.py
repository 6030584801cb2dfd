"""Authors the Talker: logits of the first code group and the hidden row the CodePredictor starts from."""

from __future__ import annotations

import numpy as np

from cpspec_trt.files.engine_config import OmniTalkerConfig, TalkerConfig
from cpspec_trt.files.tensors import TensorSet
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights
from cpspec_trt.graphs.decoder_layer import declare_decoder_inputs, decoder_stack, dense_mlp
from cpspec_trt.graphs.layers import linear, rms_norm
from cpspec_trt.graphs.moe import expert_mlp


def author_talker(config: TalkerConfig | OmniTalkerConfig, tensors: TensorSet) -> GraphAuthor:
    """The graph of the Talker: dense in Qwen3-TTS, with experts in Qwen3-Omni, and otherwise the same.

    Inputs: those of ``declare_decoder_inputs`` with ``inputs_embeds`` [batch, new, hidden_size], ``past_*``
    of ``decoder_stack``, and ``last_row`` int64 [batch, 1], the last real row of each sequence. Outputs:
    ``logits`` [batch, vocab_size] and ``hidden_states`` [batch, hidden_size] of that row (after the final
    norm), and ``present_*``. Embeddings and the text projection stay outside, in the sidecars.

    Rotary positions of text and codes are the same in all three mrope sections, so plain rows serve.

    Raises:
        CheckpointError: a tensor is missing or of another shape or type than ``config`` asks for.
    """
    author = GraphAuthor("talker")
    weights, dimensions = CheckpointWeights(author, tensors), config.decoder
    hidden, vocabulary = dimensions.hidden_size, dimensions.vocab_size
    inputs = declare_decoder_inputs(author, dimensions, hidden)
    last_row = author.input("last_row", ["batch", 1], np.int64)
    mlp = expert_mlp(config.moe) if isinstance(config, OmniTalkerConfig) else dense_mlp
    x = decoder_stack(weights, dimensions, "talker.model", inputs, inputs.inputs_embeds, mlp)
    x = author.op("GatherND", x, last_row, batch_dims=1)  # before the norm and the head: both work row by row
    x = rms_norm(weights, "talker.model.norm", x, hidden, dimensions.rms_norm_eps)
    author.output(
        "logits", linear(weights, "talker.codec_head", x, hidden, vocabulary, bias=False), ["batch", vocabulary]
    )
    author.output("hidden_states", x, ["batch", hidden])
    return author
