"""What speculation should gain, from what passes take and from the rounds that ran."""

from __future__ import annotations

from collections.abc import Mapping

from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.speculation.policy import Widths
from cpspec_trt.speculation.tree import tree_rows

START_ROWS = 2  # a frame starts with the Talker's row and the embedding of c0


def predicted_speedup(costs: PassCosts, groups: int, frames: int, rounds: Mapping[Widths, int]) -> float:
    """Time of the autoregressive loop over that of the rounds, when passes and heads alone take time.

    A frame of either loop begins with a pass of two rows and one head. Then the autoregressive loop takes G - 2 steps
    of one row and one head, C(1) + C_head each; a round with n drafts takes a pass of S rows, n heads to draft and S
    heads to score, C(S) + (n + S) C_head, where S is n + 1 in a chain and the number of nodes in a tree.

    Args:
        costs: C and C_head.
        groups: G, code groups of a frame.
        frames: frames decoded.
        rounds: how often what was drafted, candidates per depth, cut where a frame's end cut it; ``()`` is a plain
            step.
    """
    start = frames * (costs.of_pass(START_ROWS) + costs.head_seconds)
    autoregressive = frames * (groups - 2) * (costs.of_pass(1) + costs.head_seconds)
    speculative = sum(count * _round_seconds(costs, widths) for widths, count in rounds.items())
    return (start + autoregressive) / (start + speculative)


def _round_seconds(costs: PassCosts, widths: Widths) -> float:
    rows = tree_rows(widths)
    return costs.of_pass(rows) + (len(widths) + rows) * costs.head_seconds
