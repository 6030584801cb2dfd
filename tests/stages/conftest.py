"""The simulated GPU, and engines that only it can run."""

from tests.simulation.conftest import demo_device_engines, device_engines, omni_device_engines, simulation

__all__ = ["demo_device_engines", "device_engines", "omni_device_engines", "simulation"]
