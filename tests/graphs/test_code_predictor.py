"""The CodePredictor's graph: right against float64, and bit-identical however its positions are cut into passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.engine_config import CodePredictorConfig, DecoderDimensions
from cpspec_trt.graphs.code_predictor import author_code_predictor
from tests.graphs.decoder_oracle import decoder
from tests.graphs.decoder_runs import Decoder, assert_same_bits, random_stack, saved, session

GROUPS = 16
PREFIX = "talker.code_predictor"
CUTS = ([16], [2] + [1] * 14, [2, 3, 3, 3, 3, 2], [2, 8, 6], [2, 1, 5, 2, 6])
TINY = DecoderDimensions(
    num_hidden_layers=2, hidden_size=48, intermediate_size=80, num_attention_heads=4, num_key_value_heads=2,
    head_dim=16, vocab_size=64, max_position_embeddings=256, rms_norm_eps=1e-6, rope_theta=1e6,
)  # fmt: skip
PUBLISHED = DecoderDimensions(
    num_hidden_layers=5, hidden_size=1024, intermediate_size=3072, num_attention_heads=16, num_key_value_heads=8,
    head_dim=128, vocab_size=2048, max_position_embeddings=65536, rms_norm_eps=1e-6, rope_theta=1e6,
)  # fmt: skip


class Model:
    """A CodePredictor with random weights, on disk."""

    def __init__(self, dimensions: DecoderDimensions, width: int, directory: Path) -> None:
        rng = np.random.default_rng(dimensions.hidden_size + width)
        self.dimensions, self.directory = dimensions, directory
        self.config = CodePredictorConfig("qwen3_tts_code_predictor", "0" * 64, dimensions, GROUPS, width)
        self.weights = random_stack(f"{PREFIX}.model", dimensions, rng)
        if width != dimensions.hidden_size:
            shape = (dimensions.hidden_size, width)
            self.weights[f"{PREFIX}.small_to_mtp_projection.weight"] = rng.standard_normal(shape, np.float32)
            self.weights[f"{PREFIX}.small_to_mtp_projection.bias"] = rng.standard_normal(shape[0], np.float32)
        self.tensors = saved(self.weights, directory)
        self.embeds = rng.standard_normal((3, GROUPS, width), np.float32)

    def open(self, batch: int = 1, capacity: int = 24, threads: int = 1) -> Decoder:
        found = session(author_code_predictor(self.config, self.tensors), self.directory, threads)
        return Decoder(found, self.dimensions, batch, capacity)

    def rows(self, cuts: Sequence[int], capacity: int = 24, threads: int = 1) -> np.ndarray:
        return self.open(1, capacity, threads).hidden_rows(self.embeds[:1], cuts)

    def expected(self, sequence: int) -> np.ndarray:
        x = self.embeds[sequence].astype(np.float64)
        weight = self.weights.get(f"{PREFIX}.small_to_mtp_projection.weight")
        if weight is not None:
            x = x @ weight.astype(np.float64).T + self.weights[f"{PREFIX}.small_to_mtp_projection.bias"]
        return decoder(self.weights, f"{PREFIX}.model", self.dimensions, x)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(TINY, 64, tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize(
    ("dimensions", "width"),
    [
        (TINY, 64),
        (TINY, TINY.hidden_size),
        (replace(TINY, num_attention_heads=2), 64),
        (replace(TINY, num_attention_heads=8, num_key_value_heads=1, rope_theta=1e4, rms_norm_eps=1e-5), 40),
    ],
    ids=["projected", "without projection", "one head per KV head", "eight heads per KV head"],
)
@pytest.mark.parametrize("cuts", [[16], [2] + [1] * 14, [2, 3, 3, 3, 3, 2]], ids=str)
def test_hidden_rows_equal_the_float64_oracle(
    tmp_path: Path, dimensions: DecoderDimensions, width: int, cuts: list[int]
) -> None:
    model = Model(dimensions, width, tmp_path)
    found = model.open(batch=3).hidden_rows(model.embeds, cuts)
    for sequence in range(3):
        np.testing.assert_allclose(found[sequence], model.expected(sequence), atol=2e-5, rtol=0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cuts", CUTS[1:], ids=str)
def test_rows_are_bit_identical_for_every_way_of_cutting_positions_into_passes(
    tiny: Model, cuts: list[int], threads: int
) -> None:
    assert_same_bits(tiny.rows(cuts, threads=threads), tiny.rows(CUTS[0]))


def test_rows_are_bit_identical_at_the_published_size(tmp_path: Path) -> None:
    model = Model(PUBLISHED, 1024, tmp_path)
    expected = model.rows(CUTS[0])
    for threads in (1, 2):
        found = session(author_code_predictor(model.config, model.tensors), tmp_path, threads)
        for cuts in CUTS:
            assert_same_bits(Decoder(found, PUBLISHED, 1, 24).hidden_rows(model.embeds[:1], cuts), expected)
    np.testing.assert_allclose(expected[0], model.expected(0), atol=2e-5, rtol=0)


@pytest.mark.parametrize("capacity", [16, 17, 32, 48, 100, 256])
def test_rows_do_not_depend_on_the_capacity_of_the_cache(tiny: Model, capacity: int) -> None:
    for cuts in (CUTS[1], CUTS[3]):
        assert_same_bits(tiny.rows(cuts, capacity), tiny.rows(cuts))


def test_rows_do_not_depend_on_the_other_sequences_of_a_batch(tiny: Model) -> None:
    together, alone = tiny.open(batch=3), [tiny.open(), tiny.open(), tiny.open()]
    for ahead in (0, 3):  # sequences at different lengths: each is first fed a different number of rows alone
        for sequence, single in enumerate(alone):
            single.run(tiny.embeds[sequence : sequence + 1, ahead : ahead + 1 + sequence])
            together.lengths[sequence] = single.lengths[0]
            for name, cache in together.cache.items():
                cache[sequence] = single.cache[name][0]
        rows = together.run(tiny.embeds[:, 8:10])["hidden_states"]
        for sequence, single in enumerate(alone):
            assert_same_bits(rows[sequence], single.run(tiny.embeds[sequence : sequence + 1, 8:10])["hidden_states"][0])


@pytest.mark.parametrize("kind", ["random", "aligned"])
def test_garbage_beyond_the_logical_length_changes_no_bit(tiny: Model, kind: str) -> None:
    rng = np.random.default_rng(3)
    filled = tiny.open()
    filled.hidden_rows(tiny.embeds[:1], [16])
    for cuts in (CUTS[1], CUTS[2]):
        poisoned = tiny.open()
        for name, array in poisoned.cache.items():
            if kind == "random":
                array[...] = rng.standard_normal(array.shape) * 1e6
            else:  # huge multiples of true keys lie where queries look, so an unmasked one would win every softmax
                array[...] = 1e6 * filled.cache[name][:, :, [15]]
        assert_same_bits(poisoned.hidden_rows(tiny.embeds[:1], cuts), tiny.rows(cuts))


def test_rejected_rows_left_in_the_cache_change_no_bit(tiny: Model) -> None:
    visited = tiny.open()
    visited.run(tiny.embeds[:1, :2])
    visited.run(tiny.embeds[1:2, 2:10])  # eight rows of another sequence
    visited.lengths[:] = 2  # none of them accepted
    assert_same_bits(visited.hidden_rows(tiny.embeds[:1, 2:], [3, 3, 3, 3, 2]), tiny.rows(CUTS[0])[:, 2:])


def test_the_cache_is_updated_in_place_without_a_copy(tiny: Model, capfd: pytest.CaptureFixture[str]) -> None:
    opened = tiny.open()
    opened.run(tiny.embeds[:1, :2])
    for array in opened.cache.values():
        assert (array[:, :, :2] != 0).all()
        assert not array[:, :, 2:].any()
    assert "in-place optimization not activated" not in capfd.readouterr().err


def test_onnx_runtime_reports_a_copied_cache(tiny: Model, capfd: pytest.CaptureFixture[str]) -> None:
    """The control of the test above: where present is not bound to past, the warning it looks for appears."""
    opened, half = tiny.open(), TINY.head_dim // 2
    inputs = {
        "inputs_embeds": tiny.embeds[:1, :2],
        "attention_mask": np.zeros((1, 2, opened.capacity), np.float32),
        "rope_cos": np.ones((1, 2, half), np.float32),
        "rope_sin": np.zeros((1, 2, half), np.float32),
        "write_indices": np.zeros(1, np.int64),
    }
    opened.session.run(None, inputs | {f"past_{name}": array for name, array in opened.cache.items()})
    assert "in-place optimization not activated" in capfd.readouterr().err


def test_names_and_shapes_of_inputs_and_outputs_are_the_contract(tiny: Model) -> None:
    opened: ort.InferenceSession = tiny.open().session
    cache = ["batch", 2, "capacity", 16]
    caches = [(f"{kind}_{layer}", cache) for layer in range(2) for kind in ("key", "value")]
    assert [(info.name, info.shape, info.type) for info in opened.get_inputs()] == [
        ("inputs_embeds", ["batch", "new", 64], "tensor(float)"),
        ("attention_mask", ["batch", "new", "capacity"], "tensor(float)"),
        ("rope_cos", ["batch", "new", 8], "tensor(float)"),
        ("rope_sin", ["batch", "new", 8], "tensor(float)"),
        ("write_indices", ["batch"], "tensor(int64)"),
        *((f"past_{name}", shape, "tensor(float)") for name, shape in caches),
    ]
    assert [(info.name, info.shape) for info in opened.get_outputs()] == [
        *((f"present_{name}", shape) for name, shape in caches),
        ("hidden_states", ["batch", "new", 48]),
    ]


def test_a_missing_projection_is_named_when_widths_differ(tmp_path: Path) -> None:
    model = Model(TINY, TINY.hidden_size, tmp_path)
    with pytest.raises(CheckpointError, match=r"'talker\.code_predictor\.small_to_mtp_projection\.weight' is missing"):
        author_code_predictor(replace(model.config, talker_hidden_size=64), model.tensors)
