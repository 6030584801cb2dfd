"""code2wav of Qwen3-Omni against the PyTorch reference, and against itself cut into chunks.

Goldens: scripts/make_omni_decoder_goldens.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.engine_config import OmniCode2WavConfig
from cpspec_trt.files.tensors import open_tensors
from cpspec_trt.graphs.omni_code2wav import author_omni_code2wav
from cpspec_trt.synthetic.safetensors_files import write_file
from tests.graphs.decoding import louder, omni_decoder
from tests.graphs.omni_decoders import CASES, SEED, SHORT, decoder_config, decoder_tensors, golden, random_codes
from tests.graphs.streaming_contract import TOLERANCE, Case, StreamingContract

TINY = CASES["tiny"].shape


def golden_case(name: str, directory: Path) -> Case:
    kept, codes = CASES[name], random_codes(CASES[name])
    decoder = omni_decoder(decoder_config(name), decoder_tensors(kept.shape), SEED, directory)
    return Case(decoder, codes, golden(name, "waveform"), kept.stride, decoder.decode(codes))


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return golden_case(request.param, tmp_path_factory.mktemp(request.param))


class TestStreaming(StreamingContract):
    @pytest.mark.parametrize("frames", SHORT)
    def test_a_short_sequence_has_as_many_samples_as_in_the_reference(
        self, case: Case, frames: int, request: pytest.FixtureRequest
    ) -> None:
        name = request.node.callspec.params["case"]
        found = case.decoder.decode(case.codes[:, :, :frames])
        assert found.shape[1] == golden(name, "lengths")[SHORT.index(frames)]
        np.testing.assert_allclose(found, case.whole[:, : found.shape[1]], rtol=0, atol=TOLERANCE)

    def test_what_stands_before_the_first_column_of_a_transposed_convolution_changes_nothing(self, case: Case) -> None:
        """The trims take every column that it touches, and what was computed there reaches no other."""
        clean = case.decoder.zero_state()
        stages = range(1, len(case.decoder.config.upsample_rates) + 1)
        poison = {name: np.full_like(clean[name], 1e6) for name in (f"state_decoder_{i}_block_1" for i in stages)}
        expected, state = case.decoder.step(case.first[:, :, :3], 0, clean)
        found, poisoned = case.decoder.step(case.first[:, :, :3], 0, clean | poison)
        np.testing.assert_array_equal(found[:, case.decoder.absent :], expected[:, case.decoder.absent :])
        for name in state:
            np.testing.assert_array_equal(poisoned[name], state[name], err_msg=name)


def test_the_published_rates_cost_a_sequence_555_samples(tmp_path: Path) -> None:
    assert golden("published_rates", "lengths").tolist() == [1920 - 555, 2 * 1920 - 555, 40 * 1920 - 555]
    assert golden_case("published_rates", tmp_path).decoder.absent == 555


def test_loud_samples_are_limited_to_one(tmp_path: Path) -> None:
    """The last convolution is linear: its weights and bias times 20 make the samples 20 times as large."""
    quiet = golden_case("tiny", tmp_path)
    plans = louder(decoder_tensors(TINY), "code2wav.decoder.4.conv")
    decoder = quiet.decoder
    assert isinstance(decoder.config, OmniCode2WavConfig)
    loud = omni_decoder(decoder.config, plans, SEED, tmp_path / "loud").decode(quiet.codes)
    assert (np.abs(20 * quiet.whole) > 1).mean() > 0.1
    np.testing.assert_allclose(loud, np.clip(20 * quiet.whole, -1, 1), rtol=0, atol=20 * TOLERANCE)


@pytest.mark.parametrize(
    ("tensor", "fields", "complaint"),
    [
        ("code2wav.code_embedding.weight", {}, "is missing"),
        (
            "code2wav.code_embedding.weight",
            {"codebook_size": 65},
            r"has shape \[1024, 32\], .* asks for \[1040",
        ),
        ("code2wav.decoder.1.block.1.conv.weight", {"upsample_rates": (5, 3)}, r"has shape \[32, 16, 8\]"),
        ("code2wav.pre_transformer.layers.2.input_layernorm.weight", {"num_hidden_layers": 3}, "is missing"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named_before_anything_is_written(
    tmp_path: Path, tensor: str, fields: dict[str, Any], complaint: str
) -> None:
    path = tmp_path / "model.safetensors"
    write_file(path, [plan for plan in decoder_tensors(TINY) if fields or plan.name != tensor], "F32", SEED)
    with pytest.raises(CheckpointError, match=f"tensor '{tensor}' {complaint}"):
        author_omni_code2wav(replace(decoder_config("tiny"), **fields), open_tensors(path, CheckpointError))
