"""The whole path against the PyTorch reference: codes of every group equal, the sound within 1e-4."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpspec_trt import TTS
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.files.engine_config import Code2WavConfig, read_config_of
from cpspec_trt.stages.code2wav import Code2WavStage
from tests.conftest import Maker
from tests.golden_cases import DecoderCase, SpeechCase, decoder_cases, speech_cases

TOLERANCE = 1e-4
LOGIT_TOLERANCE = 2e-5  # of fp32 logits in two implementations


def _name(case: SpeechCase | DecoderCase) -> str:
    return case.name


@pytest.mark.parametrize("case", speech_cases(), ids=_name)
def test_speech_equals_the_reference_without_speculation_and_with_it(
    case: SpeechCase, synthetic_engines: Maker, demo_engines: Path
) -> None:
    engines = demo_engines if case.spec is None or case.seed is None else synthetic_engines(case.spec, case.seed)
    tts = TTS(engines, threads=1)
    for window in (0, 3):
        spoken = tts.speak(
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
        assert spoken.sample_rate == case.sample_rate
        assert spoken.samples.shape == (case.samples,)
        np.testing.assert_allclose(spoken.samples[case.waveform_offset :], case.waveform, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("case", speech_cases(), ids=_name)
def test_no_choice_of_the_goldens_is_so_close_that_rounding_could_decide_it(case: SpeechCase) -> None:
    # What follows from it: codes that differ from these goldens differ for another reason than rounding.
    assert case.margin > 10 * LOGIT_TOLERANCE


@pytest.mark.parametrize("chunk", [1, 5, 300])
@pytest.mark.parametrize("case", decoder_cases(), ids=_name)
def test_the_decoder_equals_the_reference_over_many_windows_in_any_chunks(
    case: DecoderCase, chunk: int, synthetic_engines: Maker
) -> None:
    directory = synthetic_engines(case.spec, case.seed) / "code2wav"
    stage = Code2WavStage(open_engine(directory, threads=1), read_config_of(directory, Code2WavConfig))
    samples = stage.decode(case.codes, chunk)
    assert stage.sample_rate == case.sample_rate
    assert samples.shape == case.waveform.shape
    np.testing.assert_allclose(samples, case.waveform, rtol=0, atol=TOLERANCE)
