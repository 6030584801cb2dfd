"""What both training scripts share: the budget, the data-parallel workers, and the step they take together."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Worker:
    """One of `count` data-parallel processes, started by torchrun; a plain start is worker 0 of 1."""

    rank: int
    count: int

    @classmethod
    def join(cls) -> Worker:
        """Read the place torchrun gave this process and meet the others."""
        worker = cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
        if worker.count > 1:
            dist.init_process_group("gloo")
        return worker

    @property
    def is_first(self) -> bool:
        """Only worker 0 prints and writes files."""
        return self.rank == 0

    def say(self, text: str) -> None:
        """Print from worker 0."""
        if self.is_first:
            print(text, flush=True)

    def agree_on_weights(self, parameters: Iterable[Tensor]) -> None:
        """Everyone starts from worker 0's values."""
        if self.count > 1:
            for parameter in parameters:
                dist.broadcast(parameter.data, 0)

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace every gradient by the mean over the workers, in one exchange."""
        if self.count == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.count
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, flat.split(sizes), strict=True):
            gradient.copy_(part.view_as(gradient))

    def agree_on(self, value: float) -> float:
        """Worker 0's value, so that all stop and decay together."""
        if self.count == 1:
            return value
        shared = torch.tensor([value])
        dist.broadcast(shared, 0)
        return shared.item()


@dataclass(slots=True)
class Budget:
    """How long to train: wall-clock seconds, or optimiser steps (reproducible, used for small runs)."""

    seconds: float | None
    steps: int | None
    started: float = field(default_factory=time.monotonic)

    def spent(self, step: int) -> float:
        """Fraction of the budget used after `step` steps; training ends at 1."""
        if self.steps is not None:
            return step / self.steps
        assert self.seconds is not None  # argparse requires one of the two
        return self.elapsed() / self.seconds

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started


def training_parser(description: str | None, batch: int) -> argparse.ArgumentParser:
    """The options both training scripts have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of the intermediate files")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--seconds", type=float, help="train for this wall-clock time")
    length.add_argument("--steps", type=int, help="train for this many optimiser steps")
    parser.add_argument(
        "--batch", type=int, default=batch, help="utterances per worker and step (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=1, help="CPU threads per worker (default: %(default)s)")
    parser.add_argument("--resume", type=Path, help="continue from these weights")
    return parser


def split_by_shape(parameters: Sequence[nn.Parameter]) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """(matrices and higher, vectors)."""
    return [p for p in parameters if p.dim() > 1], [p for p in parameters if p.dim() < 2]


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all groups."""
    for group in optimiser.param_groups:
        group["lr"] = rate
