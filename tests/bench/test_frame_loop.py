"""The frame loop: what is timed, what is counted, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.bench.frame_loop import FrameLoop
from cpspec_trt.bench.settings import settings_from
from cpspec_trt.errors import EngineError
from tests.bench.parts import frames_for, predictor_of
from tests.conftest import Maker

SEED, FRAMES = 54, 3


@pytest.fixture
def loop(synthetic_engines: Maker) -> FrameLoop:
    return FrameLoop(
        predictor_of(synthetic_engines("tiny", SEED)), settings_from([2, 4], ["rejection", "coupled"]), None
    )


def test_every_setting_is_timed_on_every_frame_in_every_repetition(loop: FrameLoop) -> None:
    times = loop.time(frames_for(loop.parts, FRAMES), repetitions=2)
    for found in times.values():
        assert [len(each) for each in found.start] == [len(each) for each in found.rest] == [FRAMES] * 2
        assert min(map(min, [*found.start, *found.rest])) > 0
        assert found.statistics.frames == 2 * FRAMES
    assert len(loop.measured_costs) == 3  # before the first repetition and behind each
    assert times[loop.settings[0]].statistics.passes == 2 * FRAMES * 15


def test_counts_by_depth_add_up_to_those_by_offset(loop: FrameLoop) -> None:
    inputs = frames_for(loop.parts, FRAMES)
    times, found = loop.time(inputs, repetitions=1), loop.examine(inputs)
    for setting in loop.settings[1:]:
        statistics, counts = times[setting].statistics, found[setting].counts
        assert counts.reached.sum(axis=0).tolist() == statistics.reached
        assert counts.accepted.sum(axis=0).tolist() == statistics.accepted
        assert counts.rounds.total() == statistics.rounds
        assert sum(len(widths) * count for widths, count in counts.rounds.items()) == sum(statistics.proposed)
        assert not counts.reached[:2].any()  # c0 is the Talker's, c1 is never drafted


def test_parts_of_a_frame_are_engine_kernels_and_what_is_left(loop: FrameLoop) -> None:
    for found in loop.examine(frames_for(loop.parts, FRAMES)).values():
        for part in (found.engine, found.heads, found.acceptance, found.host):
            assert len(part) == FRAMES
            assert min(part) > 0


def test_the_metered_autoregressive_loop_makes_the_codes_of_the_timed_one(loop: FrameLoop) -> None:
    """Coupled codes are the autoregressive ones, so all three must agree."""
    inputs = frames_for(loop.parts, FRAMES)
    found = loop.examine(inputs)
    coupled = [setting for setting in loop.settings if setting.name.endswith("coupled")]
    for setting in coupled:
        np.testing.assert_array_equal(found[setting].codes, found[loop.settings[0]].codes)
    assert len(coupled) == 2


def test_costs_are_medians_of_what_was_measured(loop: FrameLoop) -> None:
    loop.time(frames_for(loop.parts, 1), repetitions=2)
    single = sorted(each.of_pass(1) for each in loop.measured_costs)
    assert loop.costs.of_pass(1) == single[1]


def test_a_tree_that_the_engine_cannot_take_is_refused_with_the_command_that_helps(synthetic_engines: Maker) -> None:
    parts = predictor_of(synthetic_engines("tiny", SEED))
    with pytest.raises(EngineError, match=r"cpspec-build .*--maxVerifyRows 15"):
        FrameLoop(parts, settings_from([4], ["coupled"], 2), None)
