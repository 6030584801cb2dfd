"""Authors the CodePredictor: rows in Talker width in, hidden rows for the heads out."""

from __future__ import annotations

from cpspec_trt.files.engine_config import CodePredictorConfig
from cpspec_trt.files.tensors import TensorSet
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights
from cpspec_trt.graphs.decoder_layer import declare_decoder_inputs, decoder_stack, dense_mlp
from cpspec_trt.graphs.layers import linear, rms_norm

_PREFIX = "talker.code_predictor"


def author_code_predictor(config: CodePredictorConfig, tensors: TensorSet) -> GraphAuthor:
    """The graph of the CodePredictor.

    Inputs: those of ``declare_decoder_inputs`` with ``inputs_embeds`` [batch, new, talker_hidden_size], and
    ``past_*`` of ``decoder_stack``. Outputs: ``hidden_states`` [batch, new, hidden_size] after the final
    norm, and ``present_*``. The projection from Talker width stands inside; without one the widths are
    equal. Heads and codec embeddings stay outside, in the sidecars.

    Raises:
        CheckpointError: a tensor is missing or of another shape or type than ``config`` asks for.
    """
    author = GraphAuthor("code_predictor")
    weights, dimensions = CheckpointWeights(author, tensors), config.decoder
    width, hidden = config.talker_hidden_size, dimensions.hidden_size
    inputs = declare_decoder_inputs(author, dimensions, width)
    x = inputs.inputs_embeds
    if width != hidden:
        x = linear(weights, f"{_PREFIX}.small_to_mtp_projection", x, width, hidden)
    x = decoder_stack(weights, dimensions, f"{_PREFIX}.model", inputs, x, dense_mlp)
    x = rms_norm(weights, f"{_PREFIX}.model.norm", x, hidden, dimensions.rms_norm_eps)
    author.output("hidden_states", x, ["batch", "new", hidden])
    return author
