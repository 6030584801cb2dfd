"""The simulation as a fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.simulation import Simulation, simulated


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """An open simulation; a misuse or something left behind fails the test."""
    with simulated() as opened:
        yield opened
