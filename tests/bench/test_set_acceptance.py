"""Chosen acceptance: as often as asked, under every rule, and nothing else changes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cpspec_trt.bench.frame_loop import FrameLoop
from cpspec_trt.bench.settings import settings_from
from cpspec_trt.kernels.protocol import FilterParameters
from tests.bench.parts import GREEDY, SAMPLED, frames_for, predictor_of
from tests.conftest import Maker

SEED = 54
RULES = ["rejection", "block", "coupled"]


@pytest.mark.parametrize("acceptance", [0.0, 1.0])
def test_all_or_nothing_is_exact_under_every_rule(synthetic_engines: Maker, acceptance: float) -> None:
    parts = predictor_of(synthetic_engines("tiny", SEED))
    loop = FrameLoop(parts, settings_from([4], RULES), acceptance)
    for setting, found in loop.examine(frames_for(parts, 3)).items():
        if not setting.autoregressive:
            assert found.counts.reached.sum() > 0
            assert found.counts.accepted.sum() == acceptance * found.counts.reached.sum()
            assert found.counts.rounds.total() == (3 * 14 if acceptance == 0 else 3 * 4)  # 4, 4, 4 and 2 codes


@pytest.mark.parametrize("filters", [SAMPLED, GREEDY], ids=["sampled", "greedy"])
@pytest.mark.parametrize("rule", ["rejection", "coupled"])
def test_a_draft_that_is_reached_stands_with_the_chance_that_was_asked_for(
    synthetic_engines: Maker, rule: str, filters: FilterParameters
) -> None:
    parts, asked, frames = predictor_of(synthetic_engines("tiny", SEED)), 0.6, 60
    loop = FrameLoop(parts, settings_from([3], [rule]), asked)
    counts = loop.examine(frames_for(parts, frames, filters))[loop.settings[1]].counts
    for offset in range(2):
        reached, accepted = counts.reached[:, offset].sum(), counts.accepted[:, offset].sum()
        assert reached > 150
        assert abs(accepted / reached - asked) < 4.5 * math.sqrt(asked * (1 - asked) / reached)


def test_without_a_chosen_acceptance_the_laws_stay_the_models_own(synthetic_engines: Maker) -> None:
    """Coupled codes follow the seed, so the window cannot change them; a chosen acceptance does."""
    parts = predictor_of(synthetic_engines("tiny", SEED))
    inputs, settings = frames_for(parts, 4), settings_from([3], ["coupled"])
    own = FrameLoop(parts, settings, None).examine(inputs)
    np.testing.assert_array_equal(own[settings[0]].codes, own[settings[1]].codes)
    chosen = FrameLoop(parts, settings, 0.5).examine(inputs)
    np.testing.assert_array_equal(chosen[settings[0]].codes, own[settings[0]].codes)
    assert (chosen[settings[1]].codes != own[settings[1]].codes).any()
