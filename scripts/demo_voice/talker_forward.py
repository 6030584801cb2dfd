"""The Talker's and the CodePredictor's forward pass over whole sequences, on the weights of the qwen-tts module.

Equal to the module's own (evaluate.py measures the difference) and several times faster on a CPU: one call covers all
positions of all utterances, with no cache and no mask beyond causality. Text-only mrope is plain rope.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layout import GROUPS


@dataclass(frozen=True, slots=True)
class DecoderStates:
    """Hidden states [B, S, H]: after the final norm, and after each layer."""

    final: Tensor
    layers: list[Tensor]


def _norm(x: Tensor, norm: nn.Module) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)


def _rope_tables(head_dim: int, length: int, theta: float) -> tuple[Tensor, Tensor]:
    """(cos, sin) [length, head_dim] in the half-rotation layout."""
    frequencies = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.arange(length).float()[:, None] * frequencies[None]
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def _attention(attention: nn.Module, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Causal grouped-query attention with normalised queries and keys, x [B, S, H]."""
    batch, length, _ = x.shape
    shape = (batch, length, -1, attention.head_dim)
    value = attention.v_proj(x).view(shape).transpose(1, 2)
    query = _norm(attention.q_proj(x).view(shape), attention.q_norm).transpose(1, 2)
    key = _norm(attention.k_proj(x).view(shape), attention.k_norm).transpose(1, 2)
    query, key = _rotate(query, cos, sin).to(value.dtype), _rotate(key, cos, sin).to(value.dtype)
    share = query.shape[1] // key.shape[1]
    mixed = F.scaled_dot_product_attention(
        query, key.repeat_interleave(share, 1), value.repeat_interleave(share, 1), is_causal=True
    )
    return attention.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


def run_decoder(model: nn.Module, x: Tensor, theta: float) -> DecoderStates:
    """All layers of `model` over x [B, S, H]."""
    cos, sin = _rope_tables(model.layers[0].self_attn.head_dim, x.shape[1], theta)
    states = []
    for layer in model.layers:
        x = x + _attention(layer.self_attn, _norm(x, layer.input_layernorm), cos, sin)
        y = _norm(x, layer.post_attention_layernorm)
        x = x + layer.mlp.down_proj(F.silu(layer.mlp.gate_proj(y)) * layer.mlp.up_proj(y))
        states.append(x)
    return DecoderStates(_norm(x, model.norm), states)


def frame_embedding(talker: nn.Module, codes: Tensor) -> Tensor:
    """Sum of the 16 code embeddings: codes [..., GROUPS] to [..., H]."""
    total = talker.model.codec_embedding(codes[..., 0])
    for group in range(1, GROUPS):
        total = total + talker.code_predictor.model.codec_embedding[group - 1](codes[..., group])
    return total


def talker_states(talker: nn.Module, text: Tensor, codec: Tensor, frames: Tensor, is_frame: Tensor) -> DecoderStates:
    """Talker over prefix and frames: text, codec (-1: none) and is_frame [B, S], frames [B, S, GROUPS]."""
    x = talker.text_projection(talker.model.text_embedding(text))
    x = x + talker.model.codec_embedding(codec.clamp(min=0)) * (codec >= 0)[..., None]
    x = x + frame_embedding(talker, frames) * is_frame[..., None]
    return run_decoder(talker.model, x, talker.config.rope_theta)


def predictor_states(talker: nn.Module, hidden: Tensor, codes: Tensor) -> Tensor:
    """CodePredictor over whole frames: Talker hidden [N, H] and codes [N, GROUPS] to hidden states [N, GROUPS, P].

    Position g is read by lm_head[g - 1] and predicts code g; position 0 is read by nobody.
    """
    predictor = talker.code_predictor
    tables = [talker.model.codec_embedding, *predictor.model.codec_embedding[: GROUPS - 2]]
    rows = [hidden[:, None]] + [table(codes[:, group : group + 1]) for group, table in enumerate(tables)]
    projected = predictor.small_to_mtp_projection(torch.cat(rows, 1))
    return run_decoder(predictor.model, projected, predictor.config.rope_theta).final


def predictor_logits(talker: nn.Module, states: Tensor) -> Tensor:
    """Logits of codes 1 … 15 [N, GROUPS - 1, CODEBOOK] from the states of `predictor_states`."""
    heads = talker.code_predictor.lm_head
    return torch.stack([heads[group - 1](states[:, group]) for group in range(1, GROUPS)], 1)
