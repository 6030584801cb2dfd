"""Teacher-forced figures of a checkpoint on the held-out utterances: cross-entropies, and how well drafts would fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layout import GROUPS
from .talker_data import TalkerData
from .talker_forward import predictor_logits, predictor_states, talker_states

DRAFT_DISTANCES = (1, 2, 3)
COMPARED_FRAMES = 64  # against the module's own forward
# name: (temperature, top-k or 0 for all codes)
SAMPLING = {"temperature 1": (1.0, 0), "temperature 0.9, top-k 50": (0.9, 50)}


def _entropy(probabilities: Tensor) -> Tensor:
    return -(probabilities * probabilities.clamp(min=1e-12).log()).sum(-1)


def _summary(logits: Tensor, wanted: Tensor) -> dict[str, float]:
    """Cross-entropy, accuracy, entropy and greatest probability of logits [N, V] against codes [N]."""
    probabilities = logits.softmax(-1)
    return {
        "cross_entropy": F.cross_entropy(logits, wanted).item(),
        "accuracy": (logits.argmax(-1) == wanted).float().mean().item(),
        "entropy": _entropy(probabilities).mean().item(),
        "top_probability": probabilities.max(-1).values.mean().item(),
    }


def _distribution(logits: Tensor, temperature: float, top_k: int) -> Tensor:
    """Sampling distribution [N, V] after temperature and top-k."""
    logits = logits / temperature
    if top_k:
        logits = logits.masked_fill(logits < logits.topk(top_k, -1).values[..., -1:], -torch.inf)
    return logits.softmax(-1)


def acceptance(talker: nn.Module, states: Tensor, logits: Tensor, temperature: float, top_k: int) -> dict[str, Any]:
    """How often a draft is accepted, by its distance.

    The draft of group g made t groups earlier reads lm_head[g - 1] on the state of group g - t; rejection sampling
    accepts it with probability sum min(p, q). Shapes: states [N, GROUPS, P], logits [N, GROUPS - 1, V].
    """
    heads = talker.code_predictor.lm_head
    result: dict[str, Any] = {}
    for distance in DRAFT_DISTANCES:
        accepted, agreed = [], []
        for group in range(1 + distance, GROUPS):
            true = _distribution(logits[:, group - 1], temperature, top_k)
            draft = _distribution(heads[group - 1](states[:, group - distance]), temperature, top_k)
            accepted.append(torch.minimum(true, draft).sum(-1).mean().item())
            agreed.append((true.argmax(-1) == draft.argmax(-1)).float().mean().item())
        result[f"distance {distance}"] = {
            "accepted": float(np.mean(accepted)),
            "same_argmax": float(np.mean(agreed)),
            "accepted_by_group": accepted,
        }
    return result


@torch.no_grad()
def teacher_forced_figures(talker: nn.Module, data: TalkerData) -> dict[str, Any]:
    """All figures over the held-out utterances, one at a time; the talker in float32."""
    random = np.random.default_rng(0)
    first_logits, first_codes, hidden, codes = [], [], [], []
    for index in range(len(data.heldout)):
        batch = data.batch(data.heldout[index : index + 1], random)
        states = talker_states(talker, batch.text, batch.codec, batch.frames, batch.is_frame).final
        scored, follows = batch.next_code >= 0, batch.frame_follows()
        first_logits.append(talker.codec_head(states[scored]))
        first_codes.append(batch.next_code[scored])
        hidden.append(states[follows])
        codes.append(batch.next_frame[follows])
    all_hidden, all_codes = torch.cat(hidden), torch.cat(codes)
    states = predictor_states(talker, all_hidden, all_codes)
    logits = predictor_logits(talker, states)
    some = slice(0, COMPARED_FRAMES)
    module_logits, _ = talker.forward_sub_talker_finetune(all_codes[some], all_hidden[some])
    groups = [_summary(logits[:, group - 1], all_codes[:, group]) for group in range(1, GROUPS)]
    return {
        "frames": len(all_codes),
        "code_0": _summary(torch.cat(first_logits), torch.cat(first_codes)),
        "codes_1_to_15": {name: float(np.mean([group[name] for group in groups])) for name in groups[0]},
        "by_group": groups,
        "difference_from_module": (module_logits - logits[some]).abs().max().item(),
        "acceptance": {name: acceptance(talker, states, logits, *setting) for name, setting in SAMPLING.items()},
    }
