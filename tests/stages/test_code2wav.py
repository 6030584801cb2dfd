"""The code2wav stage of both families: any chunks, and calls one after the other, give the reference's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.builder.build import build_engine
from cpspec_trt.builder.profiles import BuildLimits
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.errors import CheckpointError, NumericError
from cpspec_trt.files.engine_config import AnyCode2WavConfig, Code2WavConfig, to_json
from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.files.tensors import open_tensors
from cpspec_trt.graphs.code2wav import author_code2wav
from cpspec_trt.graphs.omni_code2wav import author_omni_code2wav
from cpspec_trt.stages.code2wav import Code2WavStage
from cpspec_trt.synthetic.safetensors_files import write_file
from cpspec_trt.synthetic.spec import TINY
from cpspec_trt.synthetic.speech_layout import speech_tensors
from cpspec_trt.synthetic.weights import TensorPlan
from tests.graphs import omni_decoders
from tests.graphs.decoding import TTS_GOLDEN, TTS_SEED, synthetic_config

TOLERANCE = 1e-5
MAX_CHUNK = 50


@dataclass(frozen=True, slots=True)
class Case:
    """An engine, codes [frames, groups] of one sequence, and every ``stride``-th sample of the reference."""

    engine: Path
    config: AnyCode2WavConfig
    codes: np.ndarray
    reference: np.ndarray
    stride: int
    samples: int

    def stage(self) -> Code2WavStage:
        return Code2WavStage(open_engine(self.engine, threads=1), self.config)


def build(config: AnyCode2WavConfig, plans: Sequence[TensorPlan], seed: int, directory: Path) -> Path:
    export = directory / "onnx"
    write_file(directory / "model.safetensors", plans, "F32", seed)
    tensors = open_tensors(directory / "model.safetensors", CheckpointError)
    if isinstance(config, Code2WavConfig):
        author_code2wav(config, tensors).save(export / "model.onnx")
    else:
        author_omni_code2wav(config, tensors).save(export / "model.onnx")
    write_json_atomic(export / "config.json", to_json(config))
    limits = BuildLimits(opt_code_len=25, max_code_len=MAX_CHUNK)
    return build_engine(export, directory / "code2wav", limits, "onnxruntime").directory


def tts_case(directory: Path) -> Case:
    config = synthetic_config(TINY)
    with np.load(TTS_GOLDEN) as golden:
        codes, waveform = golden["tiny_codes"][0], golden["tiny_waveform"][0]
    engine = build(config, speech_tensors(TINY), TTS_SEED, directory)
    return Case(engine, config, codes, waveform, 1, len(waveform))


def omni_case(name: str, directory: Path) -> Case:
    kept, config = omni_decoders.CASES[name], omni_decoders.decoder_config(name)
    engine = build(config, omni_decoders.decoder_tensors(kept.shape), omni_decoders.SEED, directory)
    waveform, samples = omni_decoders.golden(name, "waveform")[0], int(omni_decoders.golden(name, "lengths")[-1])
    return Case(engine, config, omni_decoders.random_codes(kept)[0].T, waveform, kept.stride, samples)


@pytest.fixture(scope="module", params=["tts", "published_rates", "long"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    directory = tmp_path_factory.mktemp(request.param)
    return tts_case(directory) if request.param == "tts" else omni_case(request.param, directory)


@pytest.mark.parametrize("chunk", [1, 2, 7, 25, 100])
def test_every_chunk_length_gives_the_samples_of_the_reference(case: Case, chunk: int) -> None:
    samples = case.stage().decode(case.codes, chunk)
    assert samples.dtype == np.float32
    assert samples.shape == (case.samples,)
    np.testing.assert_allclose(samples[:: case.stride], case.reference, rtol=0, atol=TOLERANCE)


def test_frames_that_arrive_call_by_call_give_the_same_samples(case: Case) -> None:
    stage, start, parts = case.stage(), 0, []
    for frames in (1, 1, 0, 5, 20, len(case.codes) - 27):
        parts.append(stage.decode(case.codes[start : start + frames], 25))
        start += frames
    missing = len(case.codes) * stage.samples_per_frame - case.samples
    lengths = [frames * stage.samples_per_frame for frames in (1, 1, 0, 5, 20)]
    assert [len(part) for part in parts[:5]] == [lengths[0] - missing, *lengths[1:]]
    np.testing.assert_allclose(np.concatenate(parts)[:: case.stride], case.reference, rtol=0, atol=TOLERANCE)


def test_after_a_reset_nothing_of_the_sequence_before_is_left(case: Case) -> None:
    stage = case.stage()
    stage.decode(case.codes[::-1][:13], 5)
    stage.reset()
    found, fresh = stage.decode(case.codes, 7), case.stage().decode(case.codes, 7)
    np.testing.assert_array_equal(found, fresh)


def test_the_frame_of_a_sample_that_is_not_finite_is_named(tmp_path: Path) -> None:
    kept, broken = omni_decoders.CASES["tiny"], omni_decoders.CODEBOOK - 1
    plans = [
        replace(plan, row_factors=((broken, np.inf),)) if plan.name == "code2wav.code_embedding.weight" else plan
        for plan in omni_decoders.decoder_tensors(kept.shape)
    ]
    config = omni_decoders.decoder_config("tiny")
    stage = Code2WavStage(open_engine(build(config, plans, omni_decoders.SEED, tmp_path), threads=1), config)
    codes = np.zeros((10, config.num_quantizers), np.int64)
    codes[6, 0] = broken
    with pytest.raises(NumericError, match="code2wav produced a sample that is not finite in frame 6"):
        stage.decode(codes, 1)
