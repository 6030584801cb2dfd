"""Directories as TensorRT Edge-LLM writes them: its graphs call its plugins, its configurations have its fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from safetensors.numpy import save_file

HIDDEN, HEADS, KV_HEADS, HEAD, GROUPS, CODEBOOK = 16, 4, 2, 8, 16, 32
_ATTENTION_INPUTS = ("past_key_values_0", "context_lengths", "rope_rotary_cos_sin", "kvcache_start_index")


def config_of(component: str) -> dict[str, Any]:
    """``config.json`` of a component, with the fields that its builder and runtime ask for."""
    model = {"llm": "qwen3_tts_talker", "talker": "qwen3_tts_talker", "code_predictor": "qwen3_tts_code_predictor"}
    if component == "code2wav":
        return {"code2wav_config": {"num_quantizers": GROUPS, "upsample_rates": [8, 5, 4, 3], "decoder_dim": 64}}
    return {
        "model": model[component],
        "edgellm_version": "0.11.0",
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "hidden_size": HIDDEN,
        "vocab_size": CODEBOOK,
        "rope_theta": 1e6,
        "num_code_groups": GROUPS,
        "engine_role": "llm",
        "spec_decode_type": "none",
    }


def write_export(directory: Path, component: str) -> Path:
    """The ONNX directory of one component."""
    directory.mkdir(parents=True)
    graph = _vocoder() if component == "code2wav" else _decoder()
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid("trt", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), directory / "model.onnx")
    (directory / "config.json").write_text(json.dumps(config_of(component)))
    _write_sidecars(directory, component)
    return directory


def write_engine(directory: Path, component: str) -> Path:
    """The engine directory of one component: no manifest, and what its builder adds to the configuration."""
    directory.mkdir(parents=True)
    limits = {"max_batch_size": 1, "max_input_len": 256, "max_kv_cache_capacity": 256, "max_kv_pool_pages": 2}
    (directory / "config.json").write_text(json.dumps(config_of(component) | {"builder_config": limits}))
    (directory / ("code2wav.engine" if component == "code2wav" else "llm.engine")).write_bytes(b"ftrt" + bytes(100))
    _write_sidecars(directory, component)
    return directory


def _write_sidecars(directory: Path, component: str) -> None:
    table = np.zeros((CODEBOOK, HIDDEN), np.float16)
    if component in ("llm", "talker"):
        save_file({"embedding": table}, directory / "embedding.safetensors")
    elif component == "code_predictor":
        depths = range(GROUPS - 1)
        save_file({f"embedding_{i}": table for i in depths}, directory / "codec_embeddings.safetensors")
        save_file({f"lm_head_{i}.weight": table for i in depths}, directory / "lm_heads.safetensors")


def _decoder() -> onnx.GraphProto:
    """One layer around the attention plugin, in the rank-3 interface."""
    half, single = TensorProto.FLOAT16, TensorProto.FLOAT
    cache = ["batch", 2, KV_HEADS, "capacity", HEAD]
    inputs = [
        helper.make_tensor_value_info("inputs_embeds", half, ["batch", "seq", HIDDEN]),
        helper.make_tensor_value_info("past_key_values_0", half, cache),
        helper.make_tensor_value_info("context_lengths", TensorProto.INT32, ["batch"]),
        helper.make_tensor_value_info("rope_rotary_cos_sin", single, ["batch", "capacity", HEAD]),
        helper.make_tensor_value_info("kvcache_start_index", TensorProto.INT32, ["batch"]),
    ]
    outputs = [
        helper.make_tensor_value_info("hidden_states", half, ["batch", "seq", HIDDEN]),
        helper.make_tensor_value_info("present_key_values_0", half, cache),
    ]
    widths = {"q": HEADS * HEAD, "k": KV_HEADS * HEAD, "v": KV_HEADS * HEAD}
    weights = [_weight(f"w_{name}", HIDDEN, width) for name, width in widths.items()]
    nodes = [helper.make_node("MatMul", ["inputs_embeds", f"w_{name}"], [name]) for name in widths]
    attention = helper.make_node(
        "AttentionPlugin",
        [*widths, *_ATTENTION_INPUTS],
        ["attention", "present_key_values_0"],
        domain="trt",
        num_q_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_size=HEAD,
    )
    output = helper.make_node("MatMul", ["attention", "w_o"], ["hidden_states"])
    weights.append(_weight("w_o", HEADS * HEAD, HIDDEN))
    return helper.make_graph([*nodes, attention, output], "decoder", inputs, outputs, weights)


def _vocoder() -> onnx.GraphProto:
    """A graph of standard operators alone, as the reference exports its vocoder."""
    codes = helper.make_tensor_value_info("codes", TensorProto.INT64, [1, GROUPS, "frames"])
    waveform = helper.make_tensor_value_info("waveform", TensorProto.FLOAT16, [1, GROUPS, "frames"])
    cast = helper.make_node("Cast", ["codes"], ["waveform"], to=TensorProto.FLOAT16)
    return helper.make_graph([cast], "vocoder", [codes], [waveform])


def _weight(name: str, rows: int, columns: int) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.zeros((rows, columns), np.float16), name)
