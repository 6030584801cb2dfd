"""The suite of all implementations over the emulated kernels, with other schedules and sizes of a block."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.kernels.selection import suite
from tests.plugins.building import ROOT, make
from tests.plugins.emulated import SCHEDULE_VARIABLE, Schedule


def _assert_passes_under(schedule: Schedule) -> None:
    make("emulated")
    done = subprocess.run(
        suite("emulated", "tests/kernels"),
        env={**os.environ, SCHEDULE_VARIABLE: f"{schedule.seed}:{schedule.threads}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


# One more schedule is run every time: the simulated device's, in test_device.py.
@pytest.mark.long
@pytest.mark.parametrize("schedule", [Schedule(0, 256), Schedule(6, 128), Schedule(7, 256), Schedule(8, 32)], ids=str)
def test_the_suite_passes_under_other_schedules(schedule: Schedule) -> None:
    _assert_passes_under(schedule)
