"""code2wav of Qwen3-TTS against the PyTorch reference, and against itself cut into chunks.

Goldens: scripts/make_decoder_goldens.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.tensors import open_tensors
from cpspec_trt.graphs.code2wav import author_code2wav
from cpspec_trt.synthetic.safetensors_files import write_file
from cpspec_trt.synthetic.spec import TINY
from cpspec_trt.synthetic.speech_layout import speech_tensors
from tests.graphs.decoding import (
    TTS_GOLDEN,
    TTS_SEED,
    Decoder,
    load_decoder,
    louder,
    synthetic_config,
    synthetic_decoder,
)
from tests.graphs.streaming_contract import TOLERANCE, Case, StreamingContract

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "assets" / "demo-voice" / "checkpoint" / "speech_tokenizer"
DEMO_STRIDE = 7


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return synthetic_decoder(TINY, TTS_SEED, tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """Two query heads for each KV head."""
    spec = replace(TINY, decoder=replace(TINY.decoder, num_key_value_heads=2))
    return synthetic_decoder(spec, TTS_SEED, tmp_path_factory.mktemp("grouped"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return load_decoder(DEMO, tmp_path_factory.mktemp("demo") / "model.onnx")


@pytest.fixture(scope="module", params=["tiny", "grouped", "demo"])
def case(request: pytest.FixtureRequest) -> Case:
    decoder: Decoder = request.getfixturevalue(request.param)
    with np.load(TTS_GOLDEN) as golden:
        codes, reference = golden[f"{request.param}_codes"], golden[f"{request.param}_waveform"]
    codes = codes.reshape(-1, *codes.shape[-2:]).swapaxes(1, 2)
    stride = DEMO_STRIDE if request.param == "demo" else 1
    return Case(decoder, codes, reference.reshape(len(codes), -1), stride, decoder.decode(codes))


class TestStreaming(StreamingContract):
    pass


def test_loud_samples_are_limited_to_one(tiny: Decoder, tmp_path: Path) -> None:
    """The last convolution is linear: its weights and bias times 20 make the samples 20 times as large."""
    codes = np.random.default_rng(3).integers(TINY.codebook_size, size=(1, TINY.num_code_groups, 40))
    plans = louder(speech_tensors(TINY), "decoder.decoder.4.conv")
    loud, quiet = synthetic_decoder(TINY, TTS_SEED, tmp_path, plans).decode(codes), tiny.decode(codes)
    assert (np.abs(20 * quiet) > 1).mean() > 0.1
    np.testing.assert_allclose(loud, np.clip(20 * quiet, -1, 1), rtol=0, atol=20 * TOLERANCE)
    assert np.abs(loud).max() == 1


@pytest.mark.parametrize(
    ("tensor", "fields", "complaint"),
    [
        ("decoder.pre_conv.conv.bias", {}, "is missing"),
        ("decoder.quantizer.rvq_rest.vq.layers.14._codebook.cluster_usage", {}, "is missing"),
        ("decoder.decoder.0.conv.weight", {"decoder_dim": 64}, r"has shape \[32, 40, 7\], config.json asks for \[64"),
        ("decoder.pre_transformer.layers.2.input_layernorm.weight", {"num_hidden_layers": 3}, "is missing"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named_before_anything_is_written(
    tmp_path: Path, tensor: str, fields: dict[str, Any], complaint: str
) -> None:
    path = tmp_path / "model.safetensors"
    plans = [plan for plan in speech_tensors(TINY) if fields or plan.name != tensor]
    write_file(path, plans, "F32", TTS_SEED)
    with pytest.raises(CheckpointError, match=f"tensor '{tensor}' {complaint}"):
        author_code2wav(replace(synthetic_config(TINY), **fields), open_tensors(path, CheckpointError))
