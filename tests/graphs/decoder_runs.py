"""Random decoders on disk, and sessions whose KV cache is bound in place, for the graph tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnxruntime as ort
from safetensors.numpy import save_file

from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.engine_config import DecoderDimensions, MoeDimensions
from cpspec_trt.files.tensors import TensorSet, open_tensors
from cpspec_trt.graphs.authoring import GraphAuthor

MASKED = -1e30


def random_matrix(rng: np.random.Generator, outputs: int, inputs: int) -> np.ndarray:
    """Weights under which rows of variance 1 give rows of variance 1.44."""
    return rng.standard_normal((outputs, inputs), np.float32) * np.float32(1.2 / np.sqrt(inputs))


def random_mlp(at: str, hidden: int, inner: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Weights of a gated MLP."""
    return {
        f"{at}.gate_proj.weight": random_matrix(rng, inner, hidden),
        f"{at}.up_proj.weight": random_matrix(rng, inner, hidden),
        f"{at}.down_proj.weight": random_matrix(rng, hidden, inner),
    }


def random_experts(at: str, hidden: int, moe: MoeDimensions, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Weights of a mixture of experts."""
    tensors = {f"{at}.gate.weight": random_matrix(rng, moe.num_experts, hidden)}
    for expert in range(moe.num_experts):
        tensors |= random_mlp(f"{at}.experts.{expert}", hidden, moe.moe_intermediate_size, rng)
    if moe.shared_expert_intermediate_size:
        tensors |= random_mlp(f"{at}.shared_expert", hidden, moe.shared_expert_intermediate_size, rng)
        tensors[f"{at}.shared_expert_gate.weight"] = random_matrix(rng, 1, hidden)
    return tensors


def random_stack(
    prefix: str, d: DecoderDimensions, rng: np.random.Generator, moe: MoeDimensions | None = None
) -> dict[str, np.ndarray]:
    """Weights of one stack, spread so that neither attention nor routing is flat or one-hot."""

    def matrix(outputs: int, inputs: int) -> np.ndarray:
        return random_matrix(rng, outputs, inputs)

    def scale(width: int) -> np.ndarray:
        return rng.uniform(0.5, 1.5, width).astype(np.float32)

    hidden, inner, width = d.hidden_size, d.intermediate_size, d.head_dim
    queries, keys = d.num_attention_heads * width, d.num_key_value_heads * width
    tensors = {f"{prefix}.norm.weight": scale(hidden)}
    for layer in range(d.num_hidden_layers):
        at = f"{prefix}.layers.{layer}"
        tensors |= {
            f"{at}.input_layernorm.weight": scale(hidden),
            f"{at}.post_attention_layernorm.weight": scale(hidden),
            f"{at}.self_attn.q_proj.weight": matrix(queries, hidden),
            f"{at}.self_attn.k_proj.weight": matrix(keys, hidden),
            f"{at}.self_attn.v_proj.weight": matrix(keys, hidden),
            f"{at}.self_attn.o_proj.weight": matrix(hidden, queries),
            f"{at}.self_attn.q_norm.weight": scale(width),
            f"{at}.self_attn.k_norm.weight": scale(width),
        }
        if moe is None or layer in moe.dense_layers:
            tensors |= random_mlp(f"{at}.mlp", hidden, inner, rng)
        else:
            tensors |= random_experts(f"{at}.mlp", hidden, moe, rng)
    return tensors


def saved(tensors: dict[str, np.ndarray], directory: Path) -> TensorSet:
    """Write a weight file and open it."""
    save_file(tensors, directory / "weights.safetensors")
    return open_tensors(directory / "weights.safetensors", CheckpointError)


def session(author: GraphAuthor, directory: Path, threads: int = 1) -> ort.InferenceSession:
    """Save a graph (once per directory) and load it."""
    path = directory / "model.onnx"
    if not path.exists():
        author.save(path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class Decoder:
    """A session with its own KV cache, which every pass updates in place."""

    def __init__(self, found: ort.InferenceSession, d: DecoderDimensions, batch: int, capacity: int) -> None:
        self.session, self.dimensions, self.capacity = found, d, capacity
        shape = (batch, d.num_key_value_heads, capacity, d.head_dim)
        names = [f"{kind}_{i}" for i in range(d.num_hidden_layers) for kind in ("key", "value")]
        self.cache = {name: np.zeros(shape, np.float32) for name in names}
        self.lengths = np.zeros(batch, np.int64)

    def run(self, embeds: np.ndarray, last_row: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Feed ``embeds`` [batch, new, width] at each sequence's length; returns the outputs besides the cache."""
        batch, new, _ = embeds.shape
        positions = self.lengths[:, None] + np.arange(new)
        half = self.dimensions.head_dim // 2
        angles = positions[..., None] * self.dimensions.rope_theta ** (-np.arange(half) / half)
        seen = np.arange(self.capacity) <= positions[..., None]
        inputs = {
            "inputs_embeds": np.ascontiguousarray(embeds),
            "attention_mask": np.where(seen, 0, MASKED).astype(np.float32),
            "rope_cos": np.cos(angles).astype(np.float32),
            "rope_sin": np.sin(angles).astype(np.float32),
            "write_indices": self.lengths.copy(),
        }
        if last_row is not None:
            inputs["last_row"] = last_row[:, None].copy()
        outputs = {
            info.name: np.zeros([batch if s == "batch" else new if s == "new" else s for s in info.shape], np.float32)
            for info in self.session.get_outputs()
            if not info.name.startswith("present_")
        }
        binding = self.session.io_binding()
        for name, array in (inputs | {f"past_{name}": array for name, array in self.cache.items()}).items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in (outputs | {f"present_{name}": array for name, array in self.cache.items()}).items():
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        self.session.run_with_iobinding(binding)
        self.lengths += new if last_row is None else last_row + 1
        return outputs

    def hidden_rows(self, embeds: np.ndarray, cuts: Sequence[int]) -> np.ndarray:
        """All ``hidden_states`` of a sequence that is fed in passes of the given sizes."""
        edges = np.cumsum([0, *cuts])
        assert edges[-1] == embeds.shape[1]
        return np.concatenate([self.run(embeds[:, a:b])["hidden_states"] for a, b in pairwise(edges)], axis=1)


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal in every bit (so that -0.0 differs from 0.0 and NaN equals itself)."""
    assert found.shape == expected.shape
    different = found.view(np.int32) != expected.view(np.int32)
    assert not different.any(), f"{different.sum()} of {different.size} values differ"
