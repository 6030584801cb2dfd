"""Qwen3-Omni's whole path against the PyTorch reference: text, codes of every group, and sound within 1e-4."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from cpspec_trt import Omni
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.files.engine_config import OmniCode2WavConfig, ThinkerConfig, read_config_of
from cpspec_trt.files.sidecars import read_thinker_sidecars
from cpspec_trt.stages.code2wav import Code2WavStage
from tests.conftest import Maker
from tests.graphs.decoder_runs import Decoder
from tests.omni_golden_cases import Code2WavCase, OmniCase, ThinkerCase, code2wav_cases, omni_cases, thinker_cases

TOLERANCE = 1e-4
LOGIT_TOLERANCE = 2e-5  # of fp32 logits and hidden rows in two implementations
ROUTING_TOLERANCE = 5e-6  # of the router logits that choose experts


@pytest.mark.parametrize("case", omni_cases(), ids=lambda case: case.name)
def test_answers_equal_the_reference_without_speculation_and_with_it(case: OmniCase, omni_engines: Maker) -> None:
    omni = Omni(omni_engines(case.spec, case.seed), threads=1)
    for window in (0, 3):
        reply = omni.answer(
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
        if case.speech is None:
            assert reply.speech is None
            continue
        np.testing.assert_array_equal(reply.codes, case.speech.codes)
        assert reply.audio_finish_reason == case.speech.finish_reason
        assert reply.sample_rate == case.speech.sample_rate
        assert reply.samples.shape == case.speech.waveform.shape
        np.testing.assert_allclose(reply.samples, case.speech.waveform, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("case", thinker_cases(), ids=lambda case: case.name)
def test_one_pass_of_the_thinker_gives_the_hidden_rows_and_the_logits_of_the_reference(
    case: ThinkerCase, omni_engines: Maker
) -> None:
    directory = omni_engines(case.spec, case.seed) / "thinker"
    config = read_config_of(directory, ThinkerConfig)
    rows = read_thinker_sidecars(directory, config)[case.token_ids]
    session = onnxruntime.InferenceSession(directory / "llm.onnx", providers=["CPUExecutionProvider"])
    decoder = Decoder(session, config.decoder, batch=1, capacity=len(rows))
    found = decoder.run(np.asarray(rows, np.float32)[None], np.array([len(rows) - 1]))
    np.testing.assert_allclose(found["accept_hidden"][0], case.accept_hidden, rtol=0, atol=LOGIT_TOLERANCE)
    np.testing.assert_allclose(found["logits"][0], case.logits, rtol=0, atol=LOGIT_TOLERANCE)


@pytest.mark.parametrize("case", omni_cases(), ids=lambda case: case.name)
def test_no_choice_of_the_goldens_is_so_close_that_rounding_could_decide_it(case: OmniCase) -> None:
    # What follows from it: codes that differ from these goldens differ for another reason than rounding.
    assert case.margin > 10 * LOGIT_TOLERANCE
    assert case.routing_margin > 10 * ROUTING_TOLERANCE


@pytest.mark.parametrize("chunk", [1, 7, 400])
@pytest.mark.parametrize("case", code2wav_cases(), ids=lambda case: case.name)
def test_code2wav_in_any_chunks_equals_the_whole_decode_of_the_reference(
    case: Code2WavCase, chunk: int, omni_engines: Maker
) -> None:
    directory = omni_engines(case.spec, case.seed) / "code2wav"
    stage = Code2WavStage(open_engine(directory, threads=1), read_config_of(directory, OmniCode2WavConfig))
    samples = stage.decode(case.codes, chunk)
    assert stage.sample_rate == case.sample_rate
    assert samples.shape == case.waveform.shape
    np.testing.assert_allclose(samples, case.waveform, rtol=0, atol=TOLERANCE)
