"""Exports of published size whose weights come from a random generator: no checkpoint is written for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from cpspec_trt.builder.exported import ExportedComponent, tensors_of
from cpspec_trt.files.engine_config import read_component_config
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.code_predictor import author_code_predictor
from cpspec_trt.graphs.talker import author_talker
from tests.builder import tiny_exports
from tests.graphs.real_layer import RandomTensors

_DECODER = {
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 65536,
}
_EXPERTS = {
    "num_experts": 128,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 384,
    "shared_expert_intermediate_size": 768,
}


@dataclass(frozen=True, slots=True)
class RealComponent:
    """A config of published size, and what authors its graph."""

    config: dict[str, Any]
    author: Callable[[Any, Any], GraphAuthor]

    def write(self, directory: Path) -> ExportedComponent:
        """Graph, weights and config, without tables: an export as the builder of a backend sees it."""
        directory.mkdir(parents=True)
        tiny_exports.write_config(directory, self.config)
        config = read_component_config(directory)
        self.author(config, RandomTensors()).save(directory / "model.onnx")
        model = onnx.load(directory / "model.onnx", load_external_data=False)
        inputs, outputs = tensors_of(model.graph.input), tensors_of(model.graph.output)
        data = directory / "model.onnx.data"
        return ExportedComponent(directory, config, self.config, model, data, inputs, outputs, "fp32")


#: The CodePredictor of Qwen3-TTS 0.6B: five layers.
CODE_PREDICTOR = RealComponent(
    {
        **tiny_exports.CODE_PREDICTOR_CONFIG,
        **_DECODER,
        "num_hidden_layers": 5,
        "hidden_size": 1024,
        "talker_hidden_size": 1024,
        "vocab_size": 2048,
    },
    author_code_predictor,
)
#: One layer of the Talker of Qwen3-TTS 1.7B, with its head.
DENSE_TALKER_LAYER = RealComponent(
    {
        **tiny_exports.TALKER_CONFIG,
        **_DECODER,
        "num_hidden_layers": 1,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "vocab_size": 3072,
    },
    author_talker,
)
#: One layer of the Talker of Qwen3-Omni 30B, with its 128 experts.
MOE_TALKER_LAYER = RealComponent(
    {
        **tiny_exports.OMNI_TALKER_CONFIG,
        **_DECODER,
        **_EXPERTS,
        "num_hidden_layers": 1,
        "hidden_size": 1024,
        "num_key_value_heads": 2,
        "vocab_size": 3072,
    },
    author_talker,
)
