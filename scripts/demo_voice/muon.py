"""Muon: momentum whose update is orthogonalised, for the decoder's weight matrices and convolutions.

Keller Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

MOMENTUM = 0.93
WEIGHT_DECAY = 0.02
NEWTON_SCHULZ_STEPS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # coefficients of the iteration, from the publication


def orthogonalise(matrix: Tensor) -> Tensor:
    """Nearly the closest semi-orthogonal matrix, by Newton-Schulz iterations with a quintic polynomial."""
    a, b, c = QUINTIC
    x = matrix / (matrix.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised over (first dimension, all others), scaled by sqrt(max(1, rows / columns))."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group["lr"])

    def _update(self, parameter: torch.nn.Parameter, rate: float) -> None:
        momentum = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
        momentum.lerp_(parameter.grad, 1 - MOMENTUM)
        update = parameter.grad.lerp(momentum, MOMENTUM).reshape(len(parameter), -1)
        scale = max(1.0, update.shape[0] / update.shape[1]) ** 0.5
        parameter.mul_(1 - rate * WEIGHT_DECAY)
        parameter.add_(orthogonalise(update).view_as(parameter), alpha=-rate * scale)
