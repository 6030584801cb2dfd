"""Qwen3-Omni over the simulated GPU: text, codes and sound of the PyTorch reference in fp32, under every window."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt import Omni
from tests.conftest import Maker
from tests.omni_golden_cases import OmniCase, omni_cases
from tests.simulation.shares import shared_out
from tests.simulation.simulation import Simulation

TOLERANCE = 1e-4
LONG = ("both_end", "both_end_penalty_3")  # long answers


@pytest.mark.parametrize(("case", "window"), shared_out(omni_cases(), long=LONG))
def test_answers_of_the_simulated_gpu_equal_the_reference(
    simulation: Simulation, case: OmniCase, window: int, omni_device_engines: Maker
) -> None:
    reply = Omni(omni_device_engines(case.spec, case.seed)).answer(
        case.messages,
        speaker=case.speaker,
        audio=case.speech is not None,
        greedy=True,
        max_new_tokens=case.max_new_tokens,
        max_frames=case.max_frames,
        repetition_penalty=case.repetition_penalty,
        speculate=window,
    )
    assert list(reply.token_ids) == case.token_ids
    assert reply.text == case.text
    assert reply.finish_reason == case.finish_reason
    assert simulation.counts.engine_runs > 0
    if case.speech is None:
        assert reply.speech is None
        return
    np.testing.assert_array_equal(reply.codes, case.speech.codes)
    assert reply.audio_finish_reason == case.speech.finish_reason
    assert reply.samples.shape == case.speech.waveform.shape
    np.testing.assert_allclose(reply.samples, case.speech.waveform, rtol=0, atol=TOLERANCE)
