"""The decoder stack written down plainly in numpy float64: whole sequence, causal mask, repeated heads, no cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cpspec_trt.files.engine_config import DecoderDimensions, MoeDimensions

Weights = Mapping[str, np.ndarray]
Mlp = Callable[[Weights, str, np.ndarray], np.ndarray]  # (weights, tensor prefix, rows) -> rows


def rms_norm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    return np.asarray(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * weight)


def silu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / (1 + np.exp(-x)))


def rotate(x: np.ndarray, theta: float) -> np.ndarray:
    """Half-rotation layout: dimension i is paired with i + D/2. ``x`` is [positions, heads, D]."""
    positions, _, width = x.shape
    angles = np.arange(positions)[:, None] / theta ** (np.arange(0, width, 2) / width)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    low, high = x[..., : width // 2], x[..., width // 2 :]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def attention(w: Weights, at: str, d: DecoderDimensions, x: np.ndarray) -> np.ndarray:
    def heads(name: str) -> np.ndarray:
        return (x @ w[f"{at}.{name}_proj.weight"].T).reshape(len(x), -1, d.head_dim)

    query = rotate(rms_norm(heads("q"), w[f"{at}.q_norm.weight"], d.rms_norm_eps), d.rope_theta)
    key = rotate(rms_norm(heads("k"), w[f"{at}.k_norm.weight"], d.rms_norm_eps), d.rope_theta)
    value = heads("v")
    repeats = d.num_attention_heads // d.num_key_value_heads
    key, value = np.repeat(key, repeats, axis=1), np.repeat(value, repeats, axis=1)
    out = np.empty_like(query)
    for head in range(d.num_attention_heads):
        scores = query[:, head] @ key[:, head].T / np.sqrt(d.head_dim)
        scores[np.triu_indices(len(x), 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[:, head] = weights / weights.sum(axis=-1, keepdims=True) @ value[:, head]
    return np.asarray(out.reshape(len(x), -1) @ w[f"{at}.o_proj.weight"].T)


def gated_mlp(w: Weights, at: str, x: np.ndarray) -> np.ndarray:
    gate, up = x @ w[f"{at}.gate_proj.weight"].T, x @ w[f"{at}.up_proj.weight"].T
    return np.asarray((silu(gate) * up) @ w[f"{at}.down_proj.weight"].T)


def routing(w: Weights, at: str, moe: MoeDimensions, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chosen experts [rows, k] (of equals the lower index first) and the share of every expert [rows, experts]."""
    scores = x @ w[f"{at}.gate.weight"].T
    probabilities = np.exp(scores - scores.max(axis=-1, keepdims=True))
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    chosen = np.argsort(-probabilities, axis=-1, kind="stable")[:, : moe.num_experts_per_tok]
    shares = np.zeros_like(probabilities)
    np.put_along_axis(shares, chosen, np.take_along_axis(probabilities, chosen, axis=-1), axis=-1)
    if moe.norm_topk_prob:
        shares /= shares.sum(axis=-1, keepdims=True)
    return chosen, shares


def expert_mlp(moe: MoeDimensions) -> Mlp:
    """Every expert over every row, weighted with 0 where it was not chosen."""

    def mlp(w: Weights, at: str, x: np.ndarray) -> np.ndarray:
        _, shares = routing(w, at, moe, x)
        y = np.zeros_like(x)
        for expert in range(moe.num_experts):
            y += shares[:, [expert]] * gated_mlp(w, f"{at}.experts.{expert}", x)
        if moe.shared_expert_intermediate_size:
            opening = 1 / (1 + np.exp(-(x @ w[f"{at}.shared_expert_gate.weight"].T)))
            y += opening * gated_mlp(w, f"{at}.shared_expert", x)
        return y

    return mlp


def layer_outputs(
    weights: Weights, prefix: str, d: DecoderDimensions, x: np.ndarray, moe: MoeDimensions | None = None
) -> list[np.ndarray]:
    """Hidden rows before the first layer and after each, for one sequence ``x`` [positions, hidden]."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    x = x.astype(np.float64)
    outputs = [x]
    for layer in range(d.num_hidden_layers):
        at = f"{prefix}.layers.{layer}"
        mlp = gated_mlp if moe is None or layer in moe.dense_layers else expert_mlp(moe)
        x = x + attention(w, f"{at}.self_attn", d, rms_norm(x, w[f"{at}.input_layernorm.weight"], d.rms_norm_eps))
        x = x + mlp(w, f"{at}.mlp", rms_norm(x, w[f"{at}.post_attention_layernorm.weight"], d.rms_norm_eps))
        outputs.append(x)
    return outputs


def decoder(
    weights: Weights, prefix: str, d: DecoderDimensions, x: np.ndarray, moe: MoeDimensions | None = None
) -> np.ndarray:
    """Hidden rows after the final norm for one sequence ``x`` [positions, hidden]."""
    last = layer_outputs(weights, prefix, d, x, moe)[-1]
    return rms_norm(last, weights[f"{prefix}.norm.weight"].astype(np.float64), d.rms_norm_eps)
