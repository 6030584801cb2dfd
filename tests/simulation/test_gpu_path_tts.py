"""Qwen3-TTS over the simulated GPU: the codes of the PyTorch reference in fp32, under every window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpspec_trt import TTS
from tests.conftest import Maker
from tests.golden_cases import SpeechCase, speech_cases
from tests.simulation.shares import shared_out
from tests.simulation.simulation import Simulation

TOLERANCE = 1e-4
# Real sizes are slow in an emulation. Of the demo voice, two requests are enough for every run.
LONG = (
    "code_predictor_of_real_size",
    *(case.name for case in speech_cases() if case.spec is None and case.name not in ("demo_0_ryan", "demo_1_vivian")),
)


@pytest.mark.parametrize(("case", "window"), shared_out(speech_cases(), long=LONG))
def test_speech_of_the_simulated_gpu_equals_the_reference(
    simulation: Simulation, case: SpeechCase, window: int, device_engines: Maker, demo_device_engines: Path
) -> None:
    engines = demo_device_engines if case.spec is None or case.seed is None else device_engines(case.spec, case.seed)
    spoken = TTS(engines).speak(
        case.text,
        speaker=case.speaker,
        language=case.language,
        instruct=case.instruct,
        non_streaming=case.non_streaming,
        repetition_penalty=case.repetition_penalty,
        max_frames=case.max_frames,
        greedy=True,
        speculate=window,
        require_speculation=window > 0,
    )
    np.testing.assert_array_equal(spoken.codes, case.codes)
    assert spoken.finish_reason == case.finish_reason
    assert spoken.samples.shape == (case.samples,)
    np.testing.assert_allclose(spoken.samples[case.waveform_offset :], case.waveform, rtol=0, atol=TOLERANCE)
    assert simulation.counts.engine_runs > 0
