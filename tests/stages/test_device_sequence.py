"""The Talker's decoder over the simulated GPU: prompts in passes, steps of growing masks, the rows of the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.devices.device import Device
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import TalkerConfig, read_config_of
from cpspec_trt.stages import device_sequence
from cpspec_trt.stages.device_sequence import DeviceSequence
from cpspec_trt.stages.talker import TalkerStage
from tests.simulation.simulation import Simulation

TOLERANCE = 1e-5
PROMPT = 20


class Sequence(DeviceSequence):
    """Steps over rows that the test writes, and nothing drawn."""

    def __init__(self, engine: TensorRTEngine, config: TalkerConfig, batch: int) -> None:
        result = {"nothing": ((1,), np.dtype(np.int64))}
        super().__init__(engine, config.decoder, batch, {}, result)
        self.capture(lambda: None, lambda: None)

    def fed(self, rows: np.ndarray) -> np.ndarray:
        """Feed one row per sequence, float32 [batch, hidden]; the hidden rows that come out."""
        device = self._device
        device.write(self.embeds, rows[:, None])
        self.step()
        return device.read(self.outputs["hidden_states"])


@pytest.fixture
def device(simulation: Simulation) -> Iterator[Device]:
    with Device() as opened:
        yield opened


def config_of(engines: Path) -> TalkerConfig:
    return read_config_of(engines / "talker", TalkerConfig)


def sequence(engines: Path, device: Device, batch: int = 1) -> Sequence:
    engine = open_engine(engines / "talker", device=device)
    assert isinstance(engine, TensorRTEngine)
    return Sequence(engine, config_of(engines), batch)


def rows(engines: Path, seed: int, count: int) -> np.ndarray:
    width = config_of(engines).decoder.hidden_size
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def host_rows(engines: Path, prompt: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The last row of the prompt and of every step, over host memory."""
    talker = TalkerStage(open_engine(engines / "talker", threads=1), config_of(engines).decoder)
    talker.start([prompt])
    found = [talker.hidden.copy()]
    for step in steps:
        talker.step(step[None])
        found.append(talker.hidden.copy())
    return np.concatenate(found)


def device_rows(found: Sequence, prompt: np.ndarray, steps: np.ndarray) -> np.ndarray:
    found.start(0, prompt)
    hidden = [found._device.read(found.outputs["hidden_states"])]
    return np.concatenate([*hidden, *(found.fed(step[None]) for step in steps)])


def test_prompt_and_steps_have_the_rows_of_the_host_across_widths_of_the_mask(
    demo_device_engines: Path, demo_engines: Path, device: Device
) -> None:
    prompt, steps = rows(demo_engines, 1, 120), rows(demo_engines, 2, 12)  # 128 lies within
    found = sequence(demo_device_engines, device)
    expected = host_rows(demo_engines, prompt, steps)
    np.testing.assert_allclose(device_rows(found, prompt, steps), expected, rtol=0, atol=TOLERANCE)
    assert sorted(found._steps) == [128, 256, 512]


def test_a_prompt_fed_in_several_passes_is_the_prompt(
    demo_device_engines: Path, demo_engines: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_sequence, "PROMPT_ROWS", 32)
    prompt, steps = rows(demo_engines, 3, 70), rows(demo_engines, 4, 2)
    found = device_rows(sequence(demo_device_engines, device), prompt, steps)
    np.testing.assert_allclose(found, host_rows(demo_engines, prompt, steps), rtol=0, atol=TOLERANCE)


def test_a_new_prompt_forgets_the_sequence_before_even_if_that_was_poisoned(
    demo_device_engines: Path, demo_engines: Path, device: Device
) -> None:
    found = sequence(demo_device_engines, device)
    device_rows(found, rows(demo_engines, 5, 140), rows(demo_engines, 6, 3))
    for array in found._cache.tensors().values():
        device.write(array, np.full(array.shape, np.nan, np.float32))
    prompt, steps = rows(demo_engines, 7, PROMPT), rows(demo_engines, 8, 3)
    expected = host_rows(demo_engines, prompt, steps)
    np.testing.assert_allclose(device_rows(found, prompt, steps), expected, rtol=0, atol=TOLERANCE)


def test_rows_of_a_batch_start_one_by_one_and_step_together(
    demo_device_engines: Path, demo_engines: Path, device: Device
) -> None:
    found = sequence(demo_device_engines, device, batch=2)
    prompts, steps = [rows(demo_engines, 9, 12), rows(demo_engines, 10, 31)], rows(demo_engines, 11, 4)
    for row, prompt in enumerate(prompts):
        found.start(row, prompt)
    together = [found.fed(steps[at : at + 2]) for at in (0, 2)]
    for row, prompt in enumerate(prompts):
        alone = host_rows(demo_engines, prompt, steps[row::2])
        np.testing.assert_allclose([each[row] for each in together], alone[1:], rtol=0, atol=TOLERANCE)


def test_a_step_is_one_graph_and_one_pass(demo_device_engines: Path, demo_engines: Path, device: Device) -> None:
    found = sequence(demo_device_engines, device)
    found.start(0, rows(demo_engines, 12, PROMPT))
    before = device.submitted.copy()
    found.step()
    did = device.submitted.since(before)
    assert (did.graph_launches, did.passes, did.copies, did.direct, did.synchronisations) == (1, 1, 2, 0, 0)


def test_a_long_prompt_and_a_full_cache_say_what_to_rebuild(demo_device_engines: Path, device: Device) -> None:
    found = sequence(demo_device_engines, device)
    with pytest.raises(EngineError, match=r"the prompt has 257 rows.*takes 256.*--maxInputLen 257"):
        found.start(0, rows(demo_device_engines, 13, 257))
    found.start(0, rows(demo_device_engines, 14, 256))
    found.lengths[:] = 512
    with pytest.raises(EngineError, match=r"KV cache is full \(512 positions\).*--maxKVCacheCapacity 1024"):
        found.step()
