"""The published Qwen3-TTS 12 Hz CustomVoice layout: every tensor's name and shape, from the sizes of a config.

Written down from the published checkpoints, apart from the code that reads and makes them.
"""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]


def _prefixed(prefix: str, shapes: Shapes) -> Shapes:
    return {prefix + name: shape for name, shape in shapes.items()}


def _decoder_layer(config: Config) -> Shapes:
    """A layer of the Talker or the CodePredictor: no biases, normalised queries and keys."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    return {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "self_attn.q_norm.weight": (head,),
        "self_attn.k_norm.weight": (head,),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }


def _decoder_layers(config: Config) -> Shapes:
    shapes: Shapes = {"norm.weight": (config["hidden_size"],)}
    for index in range(config["num_hidden_layers"]):
        shapes |= _prefixed(f"layers.{index}.", _decoder_layer(config))
    return shapes


def tts_shapes(talker: Config) -> Shapes:
    """model.safetensors, from `talker_config`: the Talker and its CodePredictor with a projection."""
    predictor = talker["code_predictor_config"]
    width, narrow, text = talker["hidden_size"], predictor["hidden_size"], talker["text_hidden_size"]
    shapes: Shapes = {
        "talker.model.text_embedding.weight": (talker["text_vocab_size"], text),
        "talker.model.codec_embedding.weight": (talker["vocab_size"], width),
        "talker.codec_head.weight": (talker["vocab_size"], width),
        "talker.text_projection.linear_fc1.weight": (text, text),
        "talker.text_projection.linear_fc1.bias": (text,),
        "talker.text_projection.linear_fc2.weight": (width, text),
        "talker.text_projection.linear_fc2.bias": (width,),
        "talker.code_predictor.small_to_mtp_projection.weight": (narrow, width),
        "talker.code_predictor.small_to_mtp_projection.bias": (narrow,),
    }
    for group in range(talker["num_code_groups"] - 1):
        # The tables have the Talker's width, the heads the CodePredictor's.
        shapes[f"talker.code_predictor.model.codec_embedding.{group}.weight"] = (predictor["vocab_size"], width)
        shapes[f"talker.code_predictor.lm_head.{group}.weight"] = (predictor["vocab_size"], narrow)
    shapes |= _prefixed("talker.model.", _decoder_layers(talker))
    return shapes | _prefixed("talker.code_predictor.model.", _decoder_layers(predictor))


def _convolution(name: str, outputs: int, inputs: int, kernel: int) -> Shapes:
    return {f"{name}.conv.weight": (outputs, inputs, kernel), f"{name}.conv.bias": (outputs,)}


def _transposed(name: str, inputs: int, outputs: int, kernel: int) -> Shapes:
    return {f"{name}.conv.weight": (inputs, outputs, kernel), f"{name}.conv.bias": (outputs,)}


def _snake(name: str, channels: int) -> Shapes:
    return {f"{name}.alpha": (channels,), f"{name}.beta": (channels,)}


def _pre_transformer(config: Config) -> Shapes:
    hidden, latent, inner = config["hidden_size"], config["latent_dim"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    shapes: Shapes = {
        "input_proj.weight": (hidden, latent),
        "input_proj.bias": (hidden,),
        "output_proj.weight": (latent, hidden),
        "output_proj.bias": (latent,),
        "norm.weight": (hidden,),
    }
    layer: Shapes = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
        "self_attn_layer_scale.scale": (hidden,),
        "mlp_layer_scale.scale": (hidden,),
    }
    for index in range(config["num_hidden_layers"]):
        shapes |= _prefixed(f"layers.{index}.", layer)
    return shapes


def _quantizer(config: Config) -> Shapes:
    """One semantic codebook, the rest acoustic, each half with its own projections."""
    code, both = config["codebook_dim"] // 2, config["codebook_dim"]
    shapes: Shapes = {}
    for half, layers in (("rvq_first", 1), ("rvq_rest", config["num_quantizers"] - 1)):
        shapes[f"{half}.input_proj.weight"] = (code, both, 1)
        shapes[f"{half}.output_proj.weight"] = (both, code, 1)
        for layer in range(layers):
            shapes[f"{half}.vq.layers.{layer}._codebook.cluster_usage"] = (config["codebook_size"],)
            shapes[f"{half}.vq.layers.{layer}._codebook.embedding_sum"] = (config["codebook_size"], code)
    return shapes


def _upsampler(latent: int, ratio: int) -> Shapes:
    """A transposed convolution, then a ConvNeXt block."""
    return {
        **_transposed("0", latent, latent, ratio),
        **_convolution("1.dwconv", latent, 1, 7),
        "1.gamma": (latent,),
        "1.norm.weight": (latent,),
        "1.norm.bias": (latent,),
        "1.pwconv1.weight": (4 * latent, latent),
        "1.pwconv1.bias": (4 * latent,),
        "1.pwconv2.weight": (latent, 4 * latent),
        "1.pwconv2.bias": (latent,),
    }


def _vocoder(config: Config) -> Shapes:
    """Stages that halve the channels: snake, transposed convolution, three residual units."""
    channels = config["decoder_dim"]
    shapes = _convolution("0", channels, config["latent_dim"], 7)
    for stage, rate in enumerate(config["upsample_rates"], 1):
        block, half = f"{stage}.block", channels // 2
        shapes |= _snake(f"{block}.0", channels) | _transposed(f"{block}.1", channels, half, 2 * rate)
        for unit in (f"{block}.{index}" for index in (2, 3, 4)):
            shapes |= _snake(f"{unit}.act1", half) | _convolution(f"{unit}.conv1", half, half, 7)
            shapes |= _snake(f"{unit}.act2", half) | _convolution(f"{unit}.conv2", half, half, 1)
        channels = half
    last = len(config["upsample_rates"]) + 1
    return shapes | _snake(f"{last}", channels) | _convolution(f"{last + 1}", 1, channels, 7)


def decoder_shapes(config: Config) -> Shapes:
    """The decoder's part of speech_tokenizer/model.safetensors, from `decoder_config`."""
    latent = config["latent_dim"]
    shapes = _prefixed("quantizer.", _quantizer(config)) | _convolution("pre_conv", latent, config["codebook_dim"], 3)
    shapes |= _prefixed("pre_transformer.", _pre_transformer(config))
    for index, ratio in enumerate(config["upsampling_ratios"]):
        shapes |= _prefixed(f"upsample.{index}.", _upsampler(latent, ratio))
    return _prefixed("decoder.", shapes | _prefixed("decoder.", _vocoder(config)))


def _encoder_convolutions(config: Config) -> Shapes:
    """Stages that double the channels: a residual unit, then a strided convolution; activations have no weights."""
    channels = config["num_filters"]
    shapes = _convolution("0", channels, config["audio_channels"], config["kernel_size"])
    index = 1
    for ratio in reversed(config["upsampling_ratios"]):
        inner = channels // config["compress"]
        shapes |= _convolution(f"{index}.block.1", inner, channels, config["residual_kernel_size"])
        shapes |= _convolution(f"{index}.block.3", channels, inner, 1)
        shapes |= _convolution(f"{index + 2}", 2 * channels, channels, 2 * ratio)
        channels, index = 2 * channels, index + 3
    return shapes | _convolution(f"{index + 1}", config["hidden_size"], channels, config["last_kernel_size"])


def _encoder_layer(config: Config) -> Shapes:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    shapes: Shapes = {
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "mlp.fc1.weight": (inner, hidden),
        "mlp.fc2.weight": (hidden, inner),
        "self_attn_layer_scale.scale": (hidden,),
        "mlp_layer_scale.scale": (hidden,),
    }
    for norm in ("input_layernorm", "post_attention_layernorm"):
        shapes |= {f"{norm}.weight": (hidden,), f"{norm}.bias": (hidden,)}
    return shapes


def _encoder_quantizer(config: Config) -> Shapes:
    hidden, code = config["hidden_size"], config["vector_quantization_hidden_dimension"]
    semantic = config["num_semantic_quantizers"]
    shapes: Shapes = {}
    for kind, layers in (("semantic", semantic), ("acoustic", config["num_quantizers"] - semantic)):
        half = f"{kind}_residual_vector_quantizer"
        shapes[f"{half}.input_proj.weight"] = (code, hidden, 1)
        shapes[f"{half}.output_proj.weight"] = (hidden, code, 1)
        for layer in range(layers):
            codebook = f"{half}.layers.{layer}.codebook"
            shapes[f"{codebook}.embed_sum"] = (config["codebook_size"], config["codebook_dim"])
            shapes[f"{codebook}.cluster_usage"] = (config["codebook_size"],)
            shapes[f"{codebook}.initialized"] = (1,)
    return shapes


def encoder_shapes(config: Config) -> Shapes:
    """The encoder's part of speech_tokenizer/model.safetensors, from `encoder_config` (Mimi's layout)."""
    hidden = config["hidden_size"]
    stride = 2  # from Mimi's 25 Hz to 12.5 Hz
    shapes: Shapes = {"downsample.conv.weight": (hidden, hidden, 2 * stride)}
    shapes |= _prefixed("encoder.layers.", _encoder_convolutions(config))
    for index in range(config["num_hidden_layers"]):
        shapes |= _prefixed(f"encoder_transformer.layers.{index}.", _encoder_layer(config))
    return _prefixed("encoder.", shapes | _prefixed("quantizer.", _encoder_quantizer(config)))
