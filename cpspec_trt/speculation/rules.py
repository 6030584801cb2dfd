"""The acceptance rules: which noise drafts are drawn with, and how verified drafts are accepted.

Every rule is lossless: the joint law of a frame's codes is that of the autoregressive loop, for every window. Greedy
rows have one-hot laws, over which every rule is the greedy one: accept while the draft equals the target's argmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cpspec_trt.kernels.philox import Purpose
from cpspec_trt.kernels.rules_protocol import AcceptanceRule

GREEDY = "greedy"
DEFAULT_RULE = "rejection"


@dataclass(frozen=True, slots=True)
class Rule:
    """How sampled codes are drafted and accepted.

    Attributes:
        name: as flags and statistics call it.
        acceptance: as the kernels call it.
        draft_noise: what drafts are drawn with.
    """

    name: str
    acceptance: AcceptanceRule
    draft_noise: Purpose

    @property
    def codes_follow_seed(self) -> bool:
        """Whether the codes are those of the autoregressive loop with the same seed, whatever the window."""
        return self.acceptance == AcceptanceRule.COUPLED


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "rejection": Rule("rejection", AcceptanceRule.REJECTION, Purpose.DRAFT),
        "block": Rule("block", AcceptanceRule.BLOCK, Purpose.DRAFT),
        "coupled": Rule("coupled", AcceptanceRule.COUPLED, Purpose.TARGET),
    }
)
