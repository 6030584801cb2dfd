"""code2wav over the simulated GPU: any chunks give the samples of the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.devices.device import Device
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.errors import NumericError
from cpspec_trt.files.engine_config import AnyCode2WavConfig, Code2WavConfig, OmniCode2WavConfig, read_config_of
from cpspec_trt.stages.code2wav import Code2WavStage
from cpspec_trt.stages.device_code2wav import DeviceCode2Wav
from tests.conftest import Maker
from tests.simulation.simulation import Simulation

TOLERANCE = 1e-5
FRAMES = 23


@pytest.fixture
def device(simulation: Simulation) -> Iterator[Device]:
    with Device() as opened:
        yield opened


@pytest.fixture(params=["tts", "omni"])
def pair(request: pytest.FixtureRequest) -> tuple[Path, Path, AnyCode2WavConfig]:
    """Engines of the device and of the host, and their config."""
    prefix, arguments = ("omni_", ("tiny", 1)) if request.param == "omni" else ("", ("tiny", 54))
    host_prefix = "omni" if prefix else "synthetic"
    on_device: Maker = request.getfixturevalue(f"{prefix}device_engines")
    on_host: Maker = request.getfixturevalue(f"{host_prefix}_engines")
    directories = on_device(*arguments) / "code2wav", on_host(*arguments) / "code2wav"
    kind = OmniCode2WavConfig if prefix else Code2WavConfig
    return (*directories, read_config_of(directories[1], kind))


def opened(directory: Path, config: AnyCode2WavConfig, device: Device, max_chunk: int = 25) -> DeviceCode2Wav:
    engine = open_engine(directory, device=device)
    assert isinstance(engine, TensorRTEngine)
    return DeviceCode2Wav(engine, config, max_chunk)


def codes_for(config: AnyCode2WavConfig) -> np.ndarray:
    return np.random.default_rng(5).integers(config.codebook_size, size=(FRAMES, config.num_quantizers))


@pytest.mark.parametrize("chunk", [1, 7, 25])
def test_every_chunk_length_gives_the_samples_of_the_host(
    pair: tuple[Path, Path, AnyCode2WavConfig], device: Device, chunk: int
) -> None:
    directory, host, config = pair
    expected = Code2WavStage(open_engine(host, threads=1), config).decode(codes_for(config), 25)
    stage = opened(directory, config, device)
    for _ in range(2):  # the second time after a reset
        samples = stage.decode(codes_for(config), chunk)
        assert samples.dtype == np.float32
        np.testing.assert_allclose(samples, expected, rtol=0, atol=TOLERANCE)
        stage.reset()


def test_a_chunk_is_one_pass_and_one_wait(pair: tuple[Path, Path, AnyCode2WavConfig], device: Device) -> None:
    directory, _, config = pair
    stage = opened(directory, config, device)
    before = device.submitted.copy()
    stage.decode(codes_for(config), 5)
    did = device.submitted.since(before)
    assert (did.passes, did.synchronisations) == (5, 5)


def test_the_frame_of_a_sample_that_is_not_finite_is_named(
    pair: tuple[Path, Path, AnyCode2WavConfig], device: Device
) -> None:
    directory, _, config = pair
    stage = opened(directory, config, device)
    stage.decode(codes_for(config)[:4], 4)
    for array in stage._states[0].arrays.values():
        device.write(array, np.full(array.shape, np.inf, np.float32))
    with pytest.raises(NumericError, match="not finite in frame 4"):
        stage.decode(codes_for(config), 4)
