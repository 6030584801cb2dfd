"""What is compared: the autoregressive loop, and wishes for speculation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cpspec_trt.errors import UsageError
from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.speculation.adaptive import AdaptivePolicy, chains, trees
from cpspec_trt.speculation.drafting import AUTO, OFF, Drafting
from cpspec_trt.speculation.policy import FixedPolicy, Policy, Widths
from cpspec_trt.speculation.rules import DEFAULT_RULE, RULES


@dataclass(frozen=True, slots=True)
class Setting:
    """One way of decoding frames, under the name that tables and charts give it."""

    name: str
    drafting: Drafting

    @classmethod
    def of(cls, drafting: Drafting) -> Setting:
        """``off``, else the window, the rule unless it is the default, and the widths of a tree."""
        if drafting.window == 0:
            return cls("off", drafting)
        parts = [AUTO if drafting.adaptive else str(drafting.window)]
        if drafting.rule.name != DEFAULT_RULE:
            parts.append(drafting.rule.name)
        if drafting.tree is not None:
            parts.append(f"tree {','.join(map(str, drafting.tree))}")
        return cls(" ".join(parts), drafting)

    @property
    def autoregressive(self) -> bool:
        """Whether nothing is drafted."""
        return self.drafting.window == 0


AUTOREGRESSIVE = Setting.of(OFF)


def settings_from(windows: Sequence[object], rules: Sequence[object], tree_width: object = 1) -> list[Setting]:
    """The autoregressive loop, then every window under every rule; trees for the rules that verify trees.

    Args:
        windows: 2 to 8 or ``"auto"``, each once.
        rules: ``"rejection"``, ``"block"``, ``"coupled"``, each once.
        tree_width: candidates per drafted depth. Above 1, chains are measured as well.

    Raises:
        UsageError: nothing to compare, a value that cannot work, or one that stands twice.
    """
    for what, values in (("a verify window", windows), ("an acceptance rule", rules)):
        if not values:
            raise UsageError(f"{what} to measure is missing; name at least one")
        if len(set(values)) != len(values):
            raise UsageError(f"{what} stands twice in {', '.join(map(str, values))}; name each once")
    if 0 in windows:
        raise UsageError("window 0, the autoregressive loop, is always measured; leave it out of the list")
    settings = [AUTOREGRESSIVE]
    settings += [Setting.of(Drafting.checked(window, rule)) for rule in rules for window in windows]
    if tree_width != 1:
        taking = [rule for rule in rules if RULES[str(rule)].codes_follow_seed]
        if not taking:
            raise UsageError("a tree width needs the rule coupled among the rules: other rules verify chains")
        settings += [Setting.of(Drafting.checked(window, rule, tree_width)) for rule in taking for window in windows]
    return settings


def policy_of(drafting: Drafting, groups: int, max_rows: int, costs: PassCosts) -> Policy:
    """What chooses the drafts of each round.

    Args:
        drafting: the wish.
        groups: code groups of a frame.
        max_rows: rows that a verify pass may have.
        costs: what passes take, for an adaptive window.
    """
    if not drafting.adaptive:
        return FixedPolicy(drafting.widths)
    wide: list[Widths] = trees(drafting.window, max_rows) if drafting.rule.codes_follow_seed else []
    return AdaptivePolicy(groups, [*chains(drafting.window), *wide], costs)
