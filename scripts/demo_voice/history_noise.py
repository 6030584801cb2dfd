"""Noise on the frames the Talker sees, so that it learns to go on from its own imperfect frames."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .layout import CODEBOOK, GROUPS

SHARE = 0.18  # frames replaced
DEEP_SHARE, NEAR_SHARE = 0.5, 0.4  # of those: only from some depth on; by a frame with a similar first code
NEIGHBOURS = 5  # similar first codes, itself included
FALLBACK_FRAMES = 50  # stand in for a first code that never occurs


class HistoryNoise:
    """Replaces frames by frames of the training set [frames, GROUPS], guided by the first codebook [CODEBOOK, 64]."""

    def __init__(self, training_codes: NDArray[np.int64], first_codebook: Tensor) -> None:
        self._codes = torch.from_numpy(training_codes)
        self._near = torch.cdist(first_codebook, first_codebook).topk(NEIGHBOURS, largest=False).indices
        occurrences = [np.flatnonzero(training_codes[:, 0] == code) for code in range(CODEBOOK)]
        fallback = np.arange(min(FALLBACK_FRAMES, len(training_codes)))
        self._frames_with = [frames if len(frames) else fallback for frames in occurrences]

    def _similar(self, frames: Tensor) -> Tensor:
        """For each frame [N, GROUPS] a training frame whose first code is equal or a neighbour."""
        neighbour = self._near[frames[:, 0], torch.randint(NEIGHBOURS, (len(frames),))].tolist()
        return torch.stack([self._codes[np.random.choice(self._frames_with[code])] for code in neighbour])

    def __call__(self, frames: Tensor, is_frame: Tensor) -> Tensor:
        """A copy of frames [B, S, GROUPS] with a share of the positions in is_frame [B, S] replaced."""
        rows, columns = (is_frame & (torch.rand(is_frame.shape) < SHARE)).nonzero(as_tuple=True)
        if not len(rows):
            return frames
        current = frames[rows, columns]
        kind = torch.rand(len(current))[:, None]
        random = self._codes[torch.randint(len(self._codes), (len(current),))]
        first_replaced = torch.randint(1, GROUPS, (len(current), 1))
        deep = torch.where(torch.arange(GROUPS)[None] >= first_replaced, random, current)
        other = torch.where(kind < DEEP_SHARE + NEAR_SHARE, self._similar(current), random)
        noisy = frames.clone()
        noisy[rows, columns] = torch.where(kind < DEEP_SHARE, deep, other)
        return noisy
