"""code2wav against the PyTorch reference, and against itself cut into chunks.

Goldens: scripts/make_decoder_goldens.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from cpspec_trt.synthetic.weights import Law
from tests.graphs.decoding import Decoder, equal_chunks, load_decoder, synthetic_config, synthetic_decoder

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "assets" / "demo-voice" / "checkpoint" / "speech_tokenizer"
TINY_SEED = 21  # as in the script that made the goldens
DEMO_STRIDE = 7
TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class Case:
    """A decoder, codes for it, the reference's waveform (every ``stride``-th sample) and our whole decode."""

    decoder: Decoder
    codes: np.ndarray
    reference: np.ndarray
    stride: int
    whole: np.ndarray

    @property
    def frames(self) -> int:
        return int(self.codes.shape[2])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return synthetic_decoder(TINY, TINY_SEED, tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """Two query heads for each KV head."""
    spec = replace(TINY, decoder=replace(TINY.decoder, num_key_value_heads=2))
    return synthetic_decoder(spec, TINY_SEED, tmp_path_factory.mktemp("grouped"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return load_decoder(DEMO, tmp_path_factory.mktemp("demo") / "model.onnx")


@pytest.fixture(scope="module", params=["tiny", "grouped", "demo"])
def case(request: pytest.FixtureRequest) -> Case:
    decoder: Decoder = request.getfixturevalue(request.param)
    with np.load(Path(__file__).with_name("code2wav_golden.npz")) as golden:
        codes, reference = golden[f"{request.param}_codes"], golden[f"{request.param}_waveform"]
    codes = codes.reshape(-1, *codes.shape[-2:]).swapaxes(1, 2)
    stride = DEMO_STRIDE if request.param == "demo" else 1
    return Case(decoder, codes, reference.reshape(len(codes), -1), stride, decoder.decode(codes))


@pytest.fixture(scope="module")
def codes() -> np.ndarray:
    return np.random.default_rng(3).integers(TINY.codebook_size, size=(1, TINY.num_code_groups, 40))


def test_the_whole_decode_is_that_of_the_reference(case: Case) -> None:
    assert case.frames >= 4 * case.decoder.config.sliding_window
    assert np.abs(case.reference).max() > 0.3
    np.testing.assert_allclose(case.whole[:, :: case.stride], case.reference, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("size", [1, 2, 7, 25])
def test_equal_chunks_give_the_whole(case: Case, size: int) -> None:
    chunked = case.decoder.decode(case.codes, equal_chunks(case.frames, size))
    np.testing.assert_allclose(chunked, case.whole, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(chunked[:, :: case.stride], case.reference, rtol=0, atol=TOLERANCE)


def test_chunks_of_any_lengths_give_the_whole(tiny: Decoder, codes: np.ndarray) -> None:
    whole, rng = tiny.decode(codes), np.random.default_rng(8)
    for _ in range(10):
        borders = np.sort(rng.choice(np.arange(1, 40), size=rng.integers(1, 12), replace=False))
        lengths = np.diff([0, *borders, 40]).tolist()
        np.testing.assert_allclose(tiny.decode(codes, lengths), whole, rtol=0, atol=TOLERANCE, err_msg=f"{lengths}")


def test_every_frame_gives_exactly_its_samples(case: Case) -> None:
    state, per_frame = case.decoder.zero_state(len(case.codes)), case.decoder.config.samples_per_frame
    for start, frames in ((0, 1), (1, 2), (3, 9)):
        waveform, state = case.decoder.step(case.codes[:, :, start : start + frames], start, state)
        assert waveform.shape == (len(case.codes), frames * per_frame)
    assert case.whole.shape[1] == case.frames * per_frame


@pytest.mark.parametrize("size", [1, 7])
def test_chunk_borders_jump_no_more_than_the_whole_does_there(case: Case, size: int) -> None:
    chunked = case.decoder.decode(case.codes, equal_chunks(case.frames, size))
    per_chunk = size * case.decoder.config.samples_per_frame
    borders = np.arange(per_chunk, case.whole.shape[1], per_chunk)
    jumps, allowed = (np.abs(wave[:, borders] - wave[:, borders - 1]) for wave in (chunked, case.whole))
    assert (jumps <= allowed + TOLERANCE).all()


def test_a_sequence_decodes_in_a_batch_as_it_does_alone(case: Case) -> None:
    pair = np.concatenate([case.codes[:1], np.roll(case.codes[:1], 5, axis=2)])
    chunks = equal_chunks(case.frames, 25)
    together = case.decoder.decode(pair, chunks)
    for row, sequence in zip(together, pair, strict=True):
        np.testing.assert_allclose(row, case.decoder.decode(sequence[None], chunks)[0], rtol=0, atol=TOLERANCE)
    assert np.abs(together[0] - together[1]).max() > 0.1


def test_every_state_that_goes_in_comes_out_in_the_same_shape(case: Case) -> None:
    inputs = {info.name: info.shape for info in case.decoder.session.get_inputs() if info.name.startswith("state_")}
    outputs = {info.name: info.shape for info in case.decoder.session.get_outputs() if info.name != "waveform"}
    assert outputs == {f"next_{name}": shape for name, shape in inputs.items()}
    assert all(shape[0] == "batch" and all(isinstance(size, int) for size in shape[1:]) for shape in inputs.values())
    _, state = case.decoder.step(case.codes[:, :, :3], 0, case.decoder.zero_state(len(case.codes)))
    assert {name: list(array.shape[1:]) for name, array in state.items()} == {n: s[1:] for n, s in inputs.items()}


def test_every_state_matters(tiny: Decoder, codes: np.ndarray) -> None:
    _, state = tiny.step(codes[:, :, :20], 0, tiny.zero_state())
    expected, _ = tiny.step(codes[:, :, 20:24], 20, state)
    for name, array in state.items():
        forgetful, _ = tiny.step(codes[:, :, 20:24], 20, state | {name: np.zeros_like(array)})
        assert np.abs(forgetful - expected).max() > 10 * TOLERANCE, name


@pytest.mark.parametrize("frames_before", [0, 3])
def test_keys_and_values_of_frames_that_do_not_exist_change_nothing(
    tiny: Decoder, codes: np.ndarray, frames_before: int
) -> None:
    state = tiny.zero_state()
    if frames_before:
        _, state = tiny.step(codes[:, :, :frames_before], 0, state)
    missing = tiny.config.sliding_window - 1 - frames_before
    poison = np.random.default_rng(5).choice(np.array([-1e6, 1e6], np.float32), size=missing)[:, None]
    poisoned = {name: array.copy() for name, array in state.items()}
    for name, array in poisoned.items():
        if name.startswith(("state_key_", "state_value_")):
            array[:, :, :missing] = poison
    rest = codes[:, :, frames_before : frames_before + 12]
    clean, _ = tiny.step(rest, frames_before, state)
    np.testing.assert_array_equal(tiny.step(rest, frames_before, poisoned)[0], clean)


def test_later_frames_do_not_change_earlier_samples(tiny: Decoder, codes: np.ndarray) -> None:
    changed = codes.copy()
    changed[:, :, 30:] = (changed[:, :, 30:] + 1) % TINY.codebook_size
    before, after = np.split(np.abs(tiny.decode(changed) - tiny.decode(codes)), [30 * 48], axis=1)
    assert before.max() == 0
    assert after.max() > 0.01


def test_loud_samples_are_limited_to_one(tiny: Decoder, codes: np.ndarray, tmp_path: Path) -> None:
    """The last convolution is linear: its weights and bias times 20 make the samples 20 times as large."""

    def louder(law: Law) -> Law:
        return Law(20 * law.center, 20 * law.half_width)

    last = "decoder.decoder.4.conv."
    plans = [
        replace(plan, law=louder(plan.law)) if plan.name.startswith(last) else plan for plan in speech_tensors(TINY)
    ]
    loud, quiet = synthetic_decoder(TINY, TINY_SEED, tmp_path, plans).decode(codes), tiny.decode(codes)
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
    write_file(path, plans, "F32", TINY_SEED)
    with pytest.raises(CheckpointError, match=f"tensor '{tensor}' {complaint}"):
        author_code2wav(replace(synthetic_config(TINY), **fields), open_tensors(path, CheckpointError))
