"""The simulation as a fixture, and engines that only it can run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cpspec_trt.builder.build import build_checkpoint
from cpspec_trt.builder.engine_options import EngineOptions
from cpspec_trt.builder.profiles import COMPONENTS, BuildLimits
from tests.conftest import DEMO_CHECKPOINT, TEST_LIMITS, Maker, write_once
from tests.simulation.simulation import Simulation, simulated


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """An open simulation; a misuse or something left behind fails the test."""
    with simulated() as opened:
        yield opened


def build_simulated(
    root: Path,
    checkpoint: Path,
    backend: str = "tensorrt",
    precision: str = "fp32",
    limits: BuildLimits = TEST_LIMITS,
) -> Path:
    """Build a checkpoint's TensorRT engines as the product does, inside a simulation."""

    def write(directory: Path) -> None:
        with simulated():
            each = dict.fromkeys(COMPONENTS, limits)
            build_checkpoint(checkpoint, directory, each, backend, options=EngineOptions(precision=precision))

    return write_once(root, write)


@pytest.fixture(scope="session")
def device_engines(shared_directory: Path, synthetic_checkpoint: Maker) -> Maker:
    """Simulated engines of a synthetic checkpoint by spec name and seed; returns their root."""
    return lambda spec, seed: build_simulated(
        shared_directory / f"device-engines-{spec}-{seed}", synthetic_checkpoint(spec, seed)
    )


@pytest.fixture(scope="session")
def omni_device_engines(shared_directory: Path, omni_checkpoint: Maker) -> Maker:
    """Simulated engines of a synthetic Qwen3-Omni checkpoint by spec name and seed; returns their root."""
    return lambda spec, seed: build_simulated(
        shared_directory / f"omni-device-engines-{spec}-{seed}", omni_checkpoint(spec, seed)
    )


@pytest.fixture(scope="session")
def demo_device_engines(shared_directory: Path) -> Path:
    """Simulated engines of the demo voice."""
    return build_simulated(shared_directory / "device-engines-demo", DEMO_CHECKPOINT)
