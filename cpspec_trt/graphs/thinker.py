"""Authors the Thinker: logits of the next text token, and the hidden rows that a Talker may take over."""

from __future__ import annotations

import numpy as np

from cpspec_trt.files.engine_config import ThinkerConfig
from cpspec_trt.files.tensors import TensorSet
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights
from cpspec_trt.graphs.decoder_layer import declare_decoder_inputs, decoder_layer, dense_mlp
from cpspec_trt.graphs.layers import linear, rms_norm
from cpspec_trt.graphs.moe import expert_mlp


def author_thinker(config: ThinkerConfig, tensors: TensorSet) -> GraphAuthor:
    """The graph of the Thinker.

    Inputs: those of ``declare_decoder_inputs`` with ``inputs_embeds`` [batch, new, hidden_size], ``past_*``
    of ``decoder_layer``, and ``last_row`` int64 [batch, 1], the last real row of each sequence. Outputs:
    ``logits`` [batch, vocab_size] of that row; ``accept_hidden`` [batch, new, hidden_size], every row after
    ``accept_hidden_layer`` layers, without a norm; and ``present_*``. The embedding table stays outside.

    Rotary positions of text are the same in all three mrope sections, so plain rows serve.

    Raises:
        CheckpointError: a tensor is missing or of another shape or type than ``config`` asks for.
    """
    author = GraphAuthor("thinker")
    weights, dimensions = CheckpointWeights(author, tensors), config.decoder
    hidden, vocabulary = dimensions.hidden_size, dimensions.vocab_size
    inputs = declare_decoder_inputs(author, dimensions, hidden)
    last_row = author.input("last_row", ["batch", 1], np.int64)
    x = accepted = inputs.inputs_embeds
    experts = expert_mlp(config.moe)
    tensors.check_length("thinker.model.layers", dimensions.num_hidden_layers)
    for layer in range(dimensions.num_hidden_layers):
        mlp = dense_mlp if layer in config.moe.dense_layers else experts
        x = decoder_layer(weights, dimensions, "thinker.model", layer, inputs, x, mlp)
        if layer + 1 == config.accept_hidden_layer:
            accepted = x
    x = author.op("GatherND", x, last_row, batch_dims=1)  # before the norm and the head: both work row by row
    x = rms_norm(weights, "thinker.model.norm", x, hidden, dimensions.rms_norm_eps)
    author.output(
        "logits", linear(weights, "thinker.lm_head", x, hidden, vocabulary, bias=False), ["batch", vocabulary]
    )
    author.output("accept_hidden", accepted, ["batch", "new", hidden])
    return author
