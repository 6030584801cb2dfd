"""How speculation is asked for: window, rule, tree, or a choice by what is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cpspec_trt.errors import UsageError
from cpspec_trt.files.engine_config import MAX_TREE_ROWS, MAX_VERIFY_ROWS
from cpspec_trt.speculation.policy import Widths
from cpspec_trt.speculation.rules import DEFAULT_RULE, RULES, Rule
from cpspec_trt.speculation.tree import tree_rows

MIN_WINDOW = 2
MAX_WINDOW = MAX_VERIFY_ROWS
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Drafting:
    """A checked wish.

    Attributes:
        window: depths of a verify pass, the one already decided included; 0 decodes autoregressively.
        rule: how sampled drafts are accepted.
        widths: candidates per drafted depth, ``window - 1`` of them; all 1 is a chain.
        adaptive: window and widths are chosen round by round, at most ``window``; ``widths`` is a chain then.
    """

    window: int
    rule: Rule
    widths: Widths
    adaptive: bool = False

    @classmethod
    def checked(cls, window: object, rule: object = DEFAULT_RULE, tree_width: object = 1) -> Drafting:
        """Check what a caller gave.

        Args:
            window: 0, 2 to 8 or ``"auto"``.
            rule: ``"rejection"``, ``"block"`` or ``"coupled"``.
            tree_width: candidates of every drafted depth, or a sequence with those of each.

        Raises:
            UsageError: a value cannot work, alone or with the others.
        """
        if not isinstance(rule, str) or rule not in RULES:
            raise UsageError(f"the acceptance rule is {rule!r:.40}; use {', '.join(RULES)}")
        if window == AUTO:
            if tree_width != 1:
                raise UsageError(f"a tree width needs a fixed verify window, not {AUTO}, which chooses widths itself")
            return cls(MAX_WINDOW, RULES[rule], (1,) * (MAX_WINDOW - 1), adaptive=True)
        depth = max(_checked_window(window) - 1, 0)
        widths = _checked_widths(tree_width, depth)
        if max(widths, default=1) > 1 and not RULES[rule].codes_follow_seed:
            raise UsageError(f"a tree width needs the rule coupled, not {rule}: other rules verify chains")
        return cls(depth + 1 if depth else 0, RULES[rule], widths)

    @property
    def rows(self) -> int:
        """Rows of the largest verify pass of a fixed wish."""
        return tree_rows(self.widths)

    @property
    def tree(self) -> Widths | None:
        """The widths, where they are more than a chain."""
        return self.widths if max(self.widths, default=1) > 1 else None


OFF = Drafting(0, RULES[DEFAULT_RULE], ())


def _checked_window(window: object) -> int:
    if not isinstance(window, int) or isinstance(window, bool):
        raise UsageError(f"the verify window is {window!r:.40}; give a whole number or {AUTO}")
    if window != 0 and not MIN_WINDOW <= window <= MAX_WINDOW:
        reason = "1 leaves no draft slot" if window == 1 else f"the range is {MIN_WINDOW} to {MAX_WINDOW}"
        raise UsageError(
            f"the verify window is {window}: {reason}; use {MIN_WINDOW} to {MAX_WINDOW}, {AUTO}, or 0 for off"
        )
    return window


def _checked_widths(width: object, depth: int) -> Widths:
    given = [width] * depth if isinstance(width, int) else width
    if not isinstance(given, Sequence) or not all(map(_is_width, given)):
        raise UsageError(f"the tree width is {width!r:.40}; give a whole number from 1, or one per drafted depth")
    widths: Widths = tuple(given)
    if width == 1:
        return widths
    if depth == 0:
        raise UsageError(f"a tree width needs a verify window of {MIN_WINDOW} to {MAX_WINDOW}, which was not given")
    if len(widths) != depth:
        raise UsageError(
            f"the tree width has {len(widths)} entries for the {depth} drafted depths of a verify window of {depth + 1}"
        )
    if tree_rows(widths) > MAX_TREE_ROWS:
        raise UsageError(
            f"a tree of widths {','.join(map(str, widths))} has {tree_rows(widths)} rows, a verify pass at most "
            f"{MAX_TREE_ROWS}; use 2 with windows up to 6, 4 with windows up to 3, or 4,2"
        )
    return widths


def _is_width(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
