"""Which requests are guarded, and by which gap."""

from __future__ import annotations

import pytest

from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.speculation.rules import RULES
from cpspec_trt.stages.device_plans import UNGUARDED, Guard, RowParameters, guard_for

GREEDY = FilterParameters(0.7, 0, 1.0, do_sample=False)


def sampled(temperature: float) -> FilterParameters:
    return FilterParameters(temperature, 50, 1.0)


def test_exact_rows_need_no_guard() -> None:
    assert guard_for(GREEDY, RULES["rejection"], 0.0) == UNGUARDED
    assert guard_for(sampled(0.9), RULES["coupled"], 0.0) == UNGUARDED


@pytest.mark.parametrize("rule", list(RULES))
def test_greedy_rows_are_guarded_by_the_gap_of_their_logits_under_every_rule(rule: str) -> None:
    assert guard_for(GREEDY, RULES[rule], 0.25) == Guard(0.25, of_logits=True)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_rules_that_keep_the_law_whatever_the_rounding_need_no_guard(rule: str) -> None:
    assert guard_for(sampled(0.9), RULES[rule], 0.25) == UNGUARDED


@pytest.mark.parametrize("temperature", [0.1, 0.5, 0.7, 0.9, 1.0, 1.3, 2.0])
def test_coupled_draws_are_guarded_by_what_the_temperature_makes_of_the_gap(temperature: float) -> None:
    assert guard_for(sampled(temperature), RULES["coupled"], 0.25) == Guard(0.25 / temperature, of_logits=False)


def test_every_change_of_the_parameters_shows_in_their_version() -> None:
    parameters = RowParameters(2)
    versions = [parameters.version]
    parameters.set(1, sampled(0.5), 7, tolerance=0.25)
    versions.append(parameters.version)
    parameters.at_frame(3)
    versions.append(parameters.version)
    assert versions == sorted(set(versions))
    assert (parameters.temperature[1], parameters.seeds[1], parameters.frames.tolist()) == (0.5, 7, [3, 3])
    assert parameters.tolerances.tolist() == [0, 0.25]
