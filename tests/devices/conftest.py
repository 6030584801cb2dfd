"""The simulated GPU."""

from tests.simulation.conftest import simulation

__all__ = ["simulation"]
