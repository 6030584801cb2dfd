"""Codes that a whole round commits in expectation, by enumeration of everything that may be drafted: no sampling."""

from __future__ import annotations

import numpy as np

from scripts.acceptance.controlled import SETS, ControlledPredictor

STARTS = {1: range(1, 15), 2: range(1, 14), 3: (1,)}  # last committed codes by drafts; 64 ** 3 paths take a while
_AT_ONCE = 4096  # paths


def expected_codes(targets: np.ndarray, drafts: np.ndarray) -> tuple[float, float]:
    """Codes of a round that drafts n codes, under rejection and under block, where p depends on the depth alone.

    The accept decisions are taken in expectation too: under rejection the drafts up to i stand with chance
    prod of min(1, p/q); under block tau is i where h_i lets it stand and no later bound does.

    Args:
        targets: float64 [n, V], p of every slot.
        drafts: float64 [n, V], q of every slot.
    """
    length, codebook = drafts.shape
    chance, stands, joint = np.ones((3, 1))
    rejection, bounds = 1.0, []
    for slot in range(length):
        ratio = targets[slot] / drafts[slot]
        chance = np.multiply.outer(chance, drafts[slot]).ravel()
        stands = np.multiply.outer(stands, np.minimum(ratio, 1)).ravel()
        joint = np.minimum(np.multiply.outer(joint, ratio), 1).ravel()
        rejection += float(chance @ stands)
        bounds.append(joint if slot + 1 == length else _reach(joint, targets[slot + 1], drafts[slot + 1]))
    accepted, refused = length * bounds[-1], 1 - bounds[-1]
    for slot in range(length - 1, 0, -1):
        accepted = accepted.reshape(-1, codebook) @ drafts[slot]
        refused = refused.reshape(-1, codebook) @ drafts[slot]  # no later bound lets its drafts stand
        accepted, refused = accepted + slot * refused * bounds[slot - 1], refused * (1 - bounds[slot - 1])
    return rejection, 1 + float(accepted @ drafts[0])


def every_round(predictor: ControlledPredictor, drafts: int) -> np.ndarray:
    """``expected_codes`` of whole rounds of so many drafts, of every set and start: float64 [pairs, 2]."""
    return np.array(
        [
            expected_codes(
                predictor.targets[number, m + 1 : m + 1 + drafts], predictor.drafts[number, m + 1 : m + 1 + drafts]
            )
            for number in range(SETS)
            for m in STARTS[drafts]
        ]
    )


def _reach(joint: np.ndarray, target: np.ndarray, draft: np.ndarray) -> np.ndarray:
    """h_i of paths [N] of a slot that is not the last."""
    parts = np.array_split(joint, -(-len(joint) // _AT_ONCE))
    mass = np.concatenate([np.maximum(part[:, None] * target - draft, 0).sum(axis=1) for part in parts])
    whole = mass + 1 - joint
    bounds: np.ndarray = np.divide(mass, whole, out=np.ones_like(mass), where=whole > 0)
    return bounds
