"""Which settings are compared."""

from __future__ import annotations

import pytest

from cpspec_trt.bench.settings import policy_of, settings_from
from cpspec_trt.errors import UsageError
from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.speculation.drafting import Drafting

COSTS = PassCosts((1, 8), (0.01, 0.02), 0.001)


def test_the_autoregressive_loop_comes_first_and_windows_follow_rule_by_rule() -> None:
    names = [setting.name for setting in settings_from([2, 3, "auto"], ["rejection", "block"])]
    assert names == ["off", "2", "3", "auto", "2 block", "3 block", "auto block"]


def test_a_tree_width_adds_trees_to_the_chains_of_the_rule_that_takes_them() -> None:
    names = [setting.name for setting in settings_from([3], ["rejection", "coupled"], 2)]
    assert names == ["off", "3", "3 coupled", "3 coupled tree 2,2"]


@pytest.mark.parametrize(
    ("windows", "rules", "width", "reason"),
    [
        ([], ["rejection"], 1, "at least one"),
        ([2], [], 1, "at least one"),
        ([2, 3, 2], ["rejection"], 1, "stands twice"),
        ([0, 2], ["rejection"], 1, "always measured"),
        ([9], ["rejection"], 1, "the range is 2 to 8"),
        ([2], ["lossy"], 1, "acceptance rule"),
        ([2], ["rejection"], 2, "needs the rule coupled"),
        (["auto"], ["coupled"], 2, "needs a fixed verify window"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    windows: list[object], rules: list[object], width: int, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        settings_from(windows, rules, width)


def test_an_adaptive_window_chooses_trees_only_under_the_rule_that_verifies_them() -> None:
    chains = policy_of(Drafting.checked("auto", "rejection"), 16, 64, COSTS).largest
    assert max(max(widths, default=1) for widths in chains) == 1
    wide = policy_of(Drafting.checked("auto", "coupled"), 16, 64, COSTS).largest
    assert max(max(widths, default=1) for widths in wide) > 1


def test_a_fixed_window_drafts_its_widths() -> None:
    assert policy_of(Drafting.checked(3, "coupled", (4, 2)), 16, 64, COSTS).largest == ((4, 2),)
