"""A pipeline over the simulated GPU: times, counts, requests that fail, and sets that do not belong on one device."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt import TTS
from cpspec_trt.errors import EngineError, NumericError
from cpspec_trt.pipelines.times import (
    CODE2WAV,
    CODE_PREDICTOR_GENERATION,
    CODE_PREDICTOR_PREFILL,
    TALKER_GENERATION,
    TALKER_PREFILL,
)
from cpspec_trt.stages.device_code_predictor import DeviceCodePredictor
from cpspec_trt.stages.row_probe import RowProbe
from tests.conftest import Maker
from tests.simulation.simulation import Simulation

SPEC = ("tiny", 54)
TEXT = "hello world"


def spoken(tts: TTS, frames: int = 4, **settings: object) -> np.ndarray:
    return tts.speak(TEXT, speaker="ryan", max_frames=frames, **settings).codes  # type: ignore[arg-type]


def test_every_stage_has_its_times_and_a_frame_its_counts(simulation: Simulation, device_engines: Maker) -> None:
    with TTS(device_engines(*SPEC)) as tts:
        tts.speak(TEXT, speaker="ryan", max_frames=2, speculate=3)  # captures
        before = simulation.counts.copy()
        speech = tts.speak(TEXT, speaker="ryan", max_frames=5, speculate=3)
        counted = simulation.counts - before
    frames = len(speech.codes)
    assert frames == 5
    runs = {stage: len(times) for stage, times in speech.times.runs().items()}
    each = dict.fromkeys((TALKER_GENERATION, CODE_PREDICTOR_PREFILL, CODE_PREDICTOR_GENERATION), frames)
    assert runs == {TALKER_PREFILL: 1, CODE2WAV: 1, **each}
    assert all(seconds >= 0 for times in speech.times.runs().values() for seconds in times)
    assert speech.work is not None
    submitted = speech.work.submitted
    # Per frame: the Talker's step, the start and its rounds; a wait per round. Beside them: the wait that begins a
    # request, and the one for what follows the last frame.
    assert submitted.graph_launches == counted.graph_launches == 2 * frames + speech.statistics.rounds
    assert submitted.synchronisations == speech.statistics.rounds + 2
    assert counted.launches <= 2, "kernels outside graphs"
    assert 0 < speech.work.memory_in_use < 1 << 30


def test_coupled_codes_are_those_of_the_seed_for_fixed_windows_and_for_one_chosen_round_by_round(
    simulation: Simulation, device_engines: Maker
) -> None:
    with TTS(device_engines(*SPEC)) as tts:
        plain = spoken(tts, seed=11)
        for window in (4, "auto"):
            speech = tts.speak(TEXT, speaker="ryan", max_frames=4, seed=11, speculate=window, rule="coupled")
            np.testing.assert_array_equal(speech.codes, plain)
            assert speech.statistics.status.adaptive == (window == "auto")
            assert sum(speech.statistics.choices.values()) == speech.statistics.rounds


@pytest.mark.parametrize("settings", [{"greedy": True}, {"rule": "coupled", "seed": 3}], ids=["greedy", "coupled"])
def test_where_rows_are_not_exact_close_codes_are_left_to_plain_steps_and_counted(
    simulation: Simulation, device_engines: Maker, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object]
) -> None:
    probed = RowProbe(exact=False, difference=0.05)
    monkeypatch.setattr(DeviceCodePredictor, "probe", lambda *arguments: probed)
    with TTS(device_engines(*SPEC)) as tts:
        plain = spoken(tts, **settings)
        speech = tts.speak(TEXT, speaker="ryan", max_frames=4, speculate=3, **settings)  # type: ignore[arg-type]
    np.testing.assert_array_equal(speech.codes, plain)
    report = speech.statistics.to_json()
    assert (report["rows_exact"], report["tolerance"]) == (False, probed.tolerance)
    assert speech.statistics.guarded > 0


def test_a_request_that_stops_at_eos_drops_what_was_under_way(simulation: Simulation, device_engines: Maker) -> None:
    """The first frame of the next request must not see it."""
    with TTS(device_engines(*SPEC)) as tts:
        alone = spoken(tts, seed=3, speculate=3)
        stopped = tts.speak(TEXT, speaker="ryan", max_frames=8, seed=129, speculate=3)
        assert (stopped.finish_reason, len(stopped.codes)) == ("stop", 2)
        np.testing.assert_array_equal(spoken(tts, seed=3, speculate=3), alone)


def test_a_request_that_fails_leaves_the_next_one_as_it_is(simulation: Simulation, device_engines: Maker) -> None:
    with TTS(device_engines(*SPEC)) as tts:
        sound = spoken(tts, greedy=True, speculate=3)
        machine = tts._speaker._pipeline()._machine
        heads = machine._predictor.heads.row(14)  # type: ignore[attr-defined]
        device = machine._device  # type: ignore[attr-defined]
        kept = device.read(heads)
        device.write(heads, np.full(heads.shape, np.nan, np.float32))
        with pytest.raises(NumericError, match=r"speak\(\), frame 0, RVQ depth 15"):
            spoken(tts, greedy=True, speculate=3)
        device.write(heads, kept)
        np.testing.assert_array_equal(spoken(tts, greedy=True, speculate=3), sound)


def test_a_talker_and_a_code_predictor_of_different_backends_are_refused(
    simulation: Simulation, device_engines: Maker, synthetic_engines: Maker, tmp_path: Path
) -> None:
    shutil.copytree(device_engines(*SPEC), tmp_path / "engines")
    shutil.rmtree(tmp_path / "engines" / "code_predictor")
    shutil.copytree(synthetic_engines(*SPEC) / "code_predictor", tmp_path / "engines" / "code_predictor")
    with pytest.raises(EngineError, match=r"built for tensorrt, the CodePredictor for onnxruntime.*one --backend"):
        spoken(TTS(tmp_path / "engines"))
    assert simulation.live_allocations == 0


def test_code2wav_may_be_of_another_backend_than_what_speaks(
    simulation: Simulation, device_engines: Maker, synthetic_engines: Maker, tmp_path: Path
) -> None:
    mixed = tmp_path / "engines"
    shutil.copytree(synthetic_engines(*SPEC), mixed)
    shutil.rmtree(mixed / "code2wav")
    shutil.copytree(device_engines(*SPEC) / "code2wav", mixed / "code2wav")
    expected = TTS(synthetic_engines(*SPEC), threads=1).speak(TEXT, speaker="ryan", max_frames=3, greedy=True)
    with TTS(mixed, threads=1) as tts:
        found = tts.speak(TEXT, speaker="ryan", max_frames=3, greedy=True)
    np.testing.assert_array_equal(found.codes, expected.codes)
    np.testing.assert_allclose(found.samples, expected.samples, rtol=0, atol=1e-5)
    assert found.work is None
