"""Rules as data, and every rule over greedy rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpspec_trt.kernels.philox import Purpose
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.kernels.rules_protocol import AcceptanceRule
from cpspec_trt.speculation.rules import RULES
from tests.speculation.toy import Toy, decode

GREEDY = FilterParameters(1.0, 0, 1.0, do_sample=False)
SAMPLED = FilterParameters(0.9, 3, 0.95)


def test_only_the_coupled_rule_drafts_with_the_targets_noise() -> None:
    noise = {name: rule.draft_noise for name, rule in RULES.items()}
    assert noise == {"rejection": Purpose.DRAFT, "block": Purpose.DRAFT, "coupled": Purpose.TARGET}
    assert {rule.acceptance for rule in RULES.values()} == set(AcceptanceRule)
    assert [name for name, rule in RULES.items() if rule.codes_follow_seed] == ["coupled"]


@given(seed=st.integers(0, 2**31), window=st.integers(2, 8), rule=st.sampled_from(sorted(RULES)))
@settings(max_examples=30, deadline=None)
def test_greedy_rows_are_greedy_under_every_rule_ties_included(seed: int, window: int, rule: str) -> None:
    toy = Toy.random(7, 3, seed)
    toy.heads[:] = np.round(toy.heads)  # ties
    seeds, frames = np.array([seed, 1], np.uint64), np.zeros(2)
    plain, _ = decode(toy, 0, [GREEDY, SAMPLED], seeds, frames)
    codes, statistics = decode(toy, window, [GREEDY, SAMPLED], seeds, frames, RULES[rule])
    assert codes[0].tolist() == plain[0].tolist()
    assert [each.rule for each in statistics] == ["greedy", rule]


@pytest.mark.parametrize("window", range(2, 9))
def test_coupled_codes_are_those_of_the_autoregressive_loop(window: int) -> None:
    toy = Toy.random(9, 3, 4)
    seeds, frames = np.arange(200, dtype=np.uint64), np.arange(200) % 9
    plain, _ = decode(toy, 0, [SAMPLED] * 200, seeds, frames)
    codes, statistics = decode(toy, window, [SAMPLED] * 200, seeds, frames, RULES["coupled"])
    np.testing.assert_array_equal(codes, plain)
    assert 0.2 < sum(sum(each.accepted) for each in statistics) / sum(sum(each.reached) for each in statistics) < 0.95
