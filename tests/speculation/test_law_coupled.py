"""The coupled rule keeps the joint law, and code by code the autoregressive loop of the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels import draws, philox, rules_oracle
from cpspec_trt.kernels.philox import Purpose
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.kernels.rules_protocol import AcceptanceRule
from cpspec_trt.speculation import slots
from cpspec_trt.speculation.rules import RULES, Rule
from tests.speculation.laws import FEWER_FRAMES, FRAMES, P_BOUND, WINDOW_NAMES, WINDOWS, p_value, sample
from tests.speculation.toy import Toy

COUPLED = RULES["coupled"]
FRESH_DRAFTS = Rule("fresh", AcceptanceRule.COUPLED, Purpose.DRAFT)


def _check(window: int, toy: Toy, filters: FilterParameters, rule: Rule, count: int) -> list[float]:
    """Share of reached drafts that stood, by offset."""
    plain, _ = sample(toy, 0, filters, count=count)
    codes, statistics = sample(toy, window, filters, rule=rule, count=count)
    np.testing.assert_array_equal(codes, plain)
    assert p_value(toy, filters, codes) > P_BOUND
    assert len(statistics.proposed) == window - 1
    assert all(count > 0 for count in statistics.accepted)
    return [part / whole for part, whole in zip(statistics.accepted, statistics.reached, strict=True)]


@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_coupled_keeps_the_joint_law_and_the_autoregressive_codes(
    window: int, toy: Toy, filters: FilterParameters
) -> None:
    _check(window, toy, filters, COUPLED, FEWER_FRAMES)


@pytest.mark.long
@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_coupled_keeps_the_joint_law_at_length(window: int, toy: Toy, filters: FilterParameters) -> None:
    _check(window, toy, filters, COUPLED, FRAMES)


def test_fresh_noise_in_the_draft_alone_keeps_the_law_and_is_accepted_less() -> None:
    window, toy, filters = WINDOWS[2]
    coupled = _check(window, toy, filters, COUPLED, FEWER_FRAMES)
    fresh = _check(window, toy, filters, FRESH_DRAFTS, FEWER_FRAMES)
    assert all(less < more - 0.05 for less, more in zip(fresh, coupled, strict=True))


def _shared_by_two_depths(purpose: Purpose, depth: np.ndarray, last: np.ndarray | int = 0) -> np.ndarray:
    return philox.stream(purpose, np.asarray(depth) // 2, last)


@pytest.mark.parametrize(("window", "toy", "filters"), WINDOWS, ids=WINDOW_NAMES)
def test_the_law_breaks_when_two_depths_share_their_noise(
    window: int, toy: Toy, filters: FilterParameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (draws, rules_oracle, slots):
        monkeypatch.setattr(module, "stream", _shared_by_two_depths)
    codes, _ = sample(toy, window, filters, rule=COUPLED, count=FEWER_FRAMES)
    assert p_value(toy, filters, codes) < P_BOUND
