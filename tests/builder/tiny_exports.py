"""Exported directories small enough to write by hand: the contract's inputs and outputs around trivial arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from safetensors.numpy import save_file

WIDTH, HIDDEN, GROUPS, CODEBOOK, VOCABULARY, TEXT_VOCABULARY, TEXT_WIDTH = 8, 6, 16, 32, 48, 20, 10
LAYERS, KV_HEADS, HEAD_DIM = 2, 2, 4
QUANTIZERS, WINDOW = GROUPS, 5
Shape = list[int | str]

DECODER = {
    "num_hidden_layers": LAYERS,
    "intermediate_size": 12,
    "num_attention_heads": 4,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
}
TALKER_CONFIG: dict[str, Any] = {
    "model": "qwen3_tts_talker",
    "checkpoint_fingerprint": "tiny",
    "model_type": "custom_voice",
    "model_size": "0b6",
    "hidden_size": WIDTH,
    "vocab_size": VOCABULARY,
    "text_hidden_size": TEXT_WIDTH,
    "text_vocab_size": TEXT_VOCABULARY,
    "num_code_groups": GROUPS,
    "im_start_token_id": 0,
    "im_end_token_id": 1,
    "assistant_token_id": 2,
    "tts_pad_token_id": 3,
    "tts_bos_token_id": 4,
    "tts_eos_token_id": 5,
    "codec_pad_id": 32,
    "codec_bos_id": 33,
    "codec_eos_id": 34,
    "codec_think_id": 35,
    "codec_nothink_id": 36,
    "codec_think_bos_id": 37,
    "codec_think_eos_id": 38,
    "languages": {"english": 39},
    "speakers": {"ryan": 40},
    "dialects": {},
    **DECODER,
}
CODE_PREDICTOR_CONFIG: dict[str, Any] = {
    "model": "qwen3_tts_code_predictor",
    "checkpoint_fingerprint": "tiny",
    "hidden_size": HIDDEN,
    "vocab_size": CODEBOOK,
    "num_code_groups": GROUPS,
    "talker_hidden_size": WIDTH,
    **DECODER,
}
CODE2WAV_CONFIG: dict[str, Any] = {
    "model": "qwen3_tts_code2wav",
    "checkpoint_fingerprint": "tiny",
    "num_quantizers": QUANTIZERS,
    "codebook_size": CODEBOOK,
    "codebook_dim": 8,
    "latent_dim": 8,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": HEAD_DIM,
    "sliding_window": WINDOW,
    "decoder_dim": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "upsample_rates": [2, 2],
    "upsampling_ratios": [2],
    "samples_per_frame": 8,
    "sample_rate": 24000,
}


EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 6,
    "norm_topk_prob": True,
    "shared_expert_intermediate_size": 0,
    "dense_layers": [],
}
THINKER_CONFIG: dict[str, Any] = {
    "model": "qwen3_omni_moe_thinker",
    "checkpoint_fingerprint": "tiny",
    "hidden_size": TEXT_WIDTH,
    "vocab_size": TEXT_VOCABULARY,
    "accept_hidden_layer": 1,
    "im_start_token_id": 0,
    "im_end_token_id": 1,
    "user_token_id": 2,
    "assistant_token_id": 3,
    "system_token_id": 4,
    "tts_pad_token_id": 5,
    "tts_bos_token_id": 6,
    "tts_eos_token_id": 7,
    "enable_audio_output": True,
    **EXPERTS,
    **DECODER,
}
OMNI_TALKER_CONFIG: dict[str, Any] = {
    "model": "qwen3_omni_moe_talker",
    "checkpoint_fingerprint": "tiny",
    "hidden_size": WIDTH,
    "vocab_size": VOCABULARY,
    "thinker_hidden_size": TEXT_WIDTH,
    "accept_hidden_layer": 1,
    "num_code_groups": GROUPS,
    "codec_pad_id": 32,
    "codec_bos_id": 33,
    "codec_eos_id": 34,
    "codec_nothink_id": 36,
    "codec_think_bos_id": 37,
    "codec_think_eos_id": 38,
    "speakers": {"ethan": 40},
    **EXPERTS,
    "shared_expert_intermediate_size": 7,
    **DECODER,
}
OMNI_CODE2WAV_CONFIG: dict[str, Any] = {
    "model": "qwen3_omni_moe_code2wav",
    "checkpoint_fingerprint": "tiny",
    "num_quantizers": QUANTIZERS,
    "codebook_size": CODEBOOK,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": HEAD_DIM,
    "sliding_window": WINDOW,
    "decoder_dim": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "upsample_rates": [3, 2],
    "upsampling_ratios": [2],
    "samples_per_frame": 12,
    "trimmed_samples": 8,
    "sample_rate": 24000,
}


def decoder_inputs(width: int) -> list[onnx.ValueInfoProto]:
    rows: list[tuple[str, int, Shape]] = [
        ("inputs_embeds", TensorProto.FLOAT, ["batch", "new", width]),
        ("attention_mask", TensorProto.FLOAT, ["batch", "new", "capacity"]),
        ("rope_cos", TensorProto.FLOAT, ["batch", "new", HEAD_DIM // 2]),
        ("rope_sin", TensorProto.FLOAT, ["batch", "new", HEAD_DIM // 2]),
        ("write_indices", TensorProto.INT64, ["batch"]),
    ]
    for layer in range(LAYERS):
        for kind in ("key", "value"):
            rows.append((f"past_{kind}_{layer}", TensorProto.FLOAT, ["batch", KV_HEADS, "capacity", HEAD_DIM]))
    return [helper.make_tensor_value_info(*row) for row in rows]


def code_predictor_graph() -> onnx.GraphProto:
    inputs = decoder_inputs(WIDTH)
    nodes = [helper.make_node("MatMul", ["inputs_embeds", "weight"], ["hidden_states"])]
    outputs = [helper.make_tensor_value_info("hidden_states", TensorProto.FLOAT, ["batch", "new", HIDDEN])]
    return _graph(inputs, outputs, nodes, (WIDTH, HIDDEN))


def thinker_graph() -> onnx.GraphProto:
    inputs = [*decoder_inputs(TEXT_WIDTH), helper.make_tensor_value_info("last_row", TensorProto.INT64, ["batch", 1])]
    nodes = [
        helper.make_node("GatherND", ["inputs_embeds", "last_row"], ["row"], batch_dims=1),
        helper.make_node("MatMul", ["row", "weight"], ["logits"]),
        helper.make_node("Identity", ["inputs_embeds"], ["accept_hidden"]),
    ]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", TEXT_VOCABULARY]),
        helper.make_tensor_value_info("accept_hidden", TensorProto.FLOAT, ["batch", "new", TEXT_WIDTH]),
    ]
    return _graph(inputs, outputs, nodes, (TEXT_WIDTH, TEXT_VOCABULARY))


def talker_graph() -> onnx.GraphProto:
    inputs = [*decoder_inputs(WIDTH), helper.make_tensor_value_info("last_row", TensorProto.INT64, ["batch", 1])]
    nodes = [
        helper.make_node("GatherND", ["inputs_embeds", "last_row"], ["row"], batch_dims=1),
        helper.make_node("Identity", ["row"], ["hidden_states"]),
        helper.make_node("MatMul", ["row", "weight"], ["logits"]),
    ]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", VOCABULARY]),
        helper.make_tensor_value_info("hidden_states", TensorProto.FLOAT, ["batch", WIDTH]),
    ]
    return _graph(inputs, outputs, nodes, (WIDTH, VOCABULARY))


def code2wav_graph() -> onnx.GraphProto:
    """Of both families: their graphs differ in their states, and have the same other inputs."""
    rows: list[tuple[str, int, Shape]] = [
        ("codes", TensorProto.INT64, ["batch", QUANTIZERS, "frames"]),
        ("attention_mask", TensorProto.FLOAT, ["batch", "frames", "keys"]),
        ("rope_cos", TensorProto.FLOAT, ["batch", "frames", HEAD_DIM // 2]),
        ("rope_sin", TensorProto.FLOAT, ["batch", "frames", HEAD_DIM // 2]),
        ("state_key_0", TensorProto.FLOAT, ["batch", 2, WINDOW - 1, HEAD_DIM]),
    ]
    nodes = [
        helper.make_node("Identity", ["state_key_0"], ["next_state_key_0"]),
        helper.make_node("Cast", ["codes"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["numbers"], ["frames_first"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["frames_first", "weight"], ["waveform"]),
    ]
    outputs = [
        helper.make_tensor_value_info("waveform", TensorProto.FLOAT, ["batch", "frames", 8]),
        helper.make_tensor_value_info("next_state_key_0", TensorProto.FLOAT, ["batch", 2, WINDOW - 1, HEAD_DIM]),
    ]
    return _graph([helper.make_tensor_value_info(*row) for row in rows], outputs, nodes, (QUANTIZERS, 8), kv=False)


def _graph(
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    nodes: list[onnx.NodeProto],
    shape: tuple[int, int],
    kv: bool = True,
) -> onnx.GraphProto:
    if kv:
        for value in [value for value in inputs if value.name.startswith("past_")]:
            present = onnx.ValueInfoProto()
            present.CopyFrom(value)
            present.name = value.name.replace("past_", "present_")
            nodes.append(helper.make_node("Identity", [value.name], [present.name]))
            outputs.append(present)
    weight = TensorProto(name="weight", data_type=TensorProto.FLOAT, dims=shape)
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "model.onnx.data"), ("offset", "0"), ("length", str(4 * shape[0] * shape[1]))):
        weight.external_data.add(key=key, value=value)
    return helper.make_graph(nodes, "tiny", inputs, outputs, [weight])


def write_model(directory: Path, graph: onnx.GraphProto, seed: int) -> None:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.onnx").write_bytes(model.SerializeToString())
    rows, columns = graph.initializer[0].dims
    weights = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)
    (directory / "model.onnx.data").write_bytes(weights.tobytes())


def write_config(directory: Path, config: dict[str, Any]) -> None:
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")


def write_code_predictor(directory: Path, seed: int = 0, **changes: Any) -> Path:
    write_model(directory, code_predictor_graph(), seed)
    write_config(directory, {**CODE_PREDICTOR_CONFIG, **changes})
    depths = range(GROUPS - 1)
    zeros = np.zeros
    save_file(
        {f"embedding_{i}": zeros((CODEBOOK, WIDTH), np.float32) for i in depths},
        directory / "codec_embeddings.safetensors",
    )
    save_file(
        {f"lm_head_{i}.weight": zeros((CODEBOOK, HIDDEN), np.float32) for i in depths},
        directory / "lm_heads.safetensors",
    )
    return directory


def write_talker(directory: Path, seed: int = 0, **changes: Any) -> Path:
    write_model(directory, talker_graph(), seed)
    write_config(directory, {**TALKER_CONFIG, **changes})
    save_file({"embedding": np.zeros((VOCABULARY, WIDTH), np.float32)}, directory / "embedding.safetensors")
    save_file(
        {"text_embedding": np.zeros((TEXT_VOCABULARY, TEXT_WIDTH), np.float32)},
        directory / "text_embedding.safetensors",
    )
    write_projection(directory / "text_projection.safetensors", TEXT_WIDTH)
    (directory / "tokenizer.json").write_text("{}", encoding="utf-8")
    (directory / "generation_config.json").write_text("{}", encoding="utf-8")
    (directory / "vocabulary.txt").write_text("hello\n", encoding="utf-8")
    return directory


def write_projection(path: Path, inner: int) -> None:
    """From rows of text to rows of the Talker."""
    shapes = {
        "fc1.weight": (inner, TEXT_WIDTH),
        "fc1.bias": (inner,),
        "fc2.weight": (WIDTH, inner),
        "fc2.bias": (WIDTH,),
    }
    save_file({f"linear_{name}": np.zeros(shape, np.float32) for name, shape in shapes.items()}, path)


def write_thinker(directory: Path, seed: int = 0, **changes: Any) -> Path:
    write_model(directory, thinker_graph(), seed)
    write_config(directory, {**THINKER_CONFIG, **changes})
    save_file({"embedding": np.zeros((TEXT_VOCABULARY, TEXT_WIDTH), np.float32)}, directory / "embedding.safetensors")
    (directory / "tokenizer.json").write_text("{}", encoding="utf-8")
    (directory / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    return directory


def write_omni_talker(directory: Path, seed: int = 0, **changes: Any) -> Path:
    write_model(directory, talker_graph(), seed)
    write_config(directory, {**OMNI_TALKER_CONFIG, **changes})
    save_file({"embedding": np.zeros((VOCABULARY, WIDTH), np.float32)}, directory / "embedding.safetensors")
    for name in ("text_projection", "hidden_projection"):
        write_projection(directory / f"{name}.safetensors", int(DECODER["intermediate_size"]))
    return directory


def write_omni_code2wav(directory: Path, seed: int = 0, **changes: Any) -> Path:
    write_model(directory, code2wav_graph(), seed)
    write_config(directory, {**OMNI_CODE2WAV_CONFIG, **changes})
    return directory


def write_code2wav(directory: Path, seed: int = 0, **changes: Any) -> Path:
    write_model(directory, code2wav_graph(), seed)
    write_config(directory, {**CODE2WAV_CONFIG, **changes})
    return directory
