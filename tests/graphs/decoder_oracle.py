"""The decoder stack written down plainly in numpy float64: whole sequence, causal mask, repeated heads, no cache."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cpspec_trt.files.engine_config import DecoderDimensions

Weights = Mapping[str, np.ndarray]


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


def decoder(weights: Weights, prefix: str, d: DecoderDimensions, x: np.ndarray) -> np.ndarray:
    """Hidden rows after the final norm for one sequence ``x`` [positions, hidden]."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    x = x.astype(np.float64)
    for layer in range(d.num_hidden_layers):
        at = f"{prefix}.layers.{layer}"
        x = x + attention(w, f"{at}.self_attn", d, rms_norm(x, w[f"{at}.input_layernorm.weight"], d.rms_norm_eps))
        y = rms_norm(x, w[f"{at}.post_attention_layernorm.weight"], d.rms_norm_eps)
        gate, up = y @ w[f"{at}.mlp.gate_proj.weight"].T, y @ w[f"{at}.mlp.up_proj.weight"].T
        x = x + (silu(gate) * up) @ w[f"{at}.mlp.down_proj.weight"].T
    return rms_norm(x, w[f"{prefix}.norm.weight"], d.rms_norm_eps)
