"""The Thinker's graph against the float64 oracle, with dense layers among those of experts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.engine_config import DecoderDimensions, MoeDimensions, ThinkerConfig
from cpspec_trt.graphs.thinker import author_thinker
from tests.graphs.decoder_oracle import layer_outputs, rms_norm
from tests.graphs.decoder_runs import Decoder, assert_same_bits, random_stack, saved, session

DIMENSIONS = DecoderDimensions(
    num_hidden_layers=3, hidden_size=64, intermediate_size=72, num_attention_heads=8, num_key_value_heads=2,
    head_dim=16, vocab_size=200, max_position_embeddings=4096, rms_norm_eps=1e-6, rope_theta=1e6,
)  # fmt: skip
EXPERTS = MoeDimensions(
    num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True,
    shared_expert_intermediate_size=0, dense_layers=(1,),
)  # fmt: skip
CONFIG = ThinkerConfig(
    model="qwen3_omni_moe_thinker", checkpoint_fingerprint="0" * 64, decoder=DIMENSIONS, moe=EXPERTS,
    accept_hidden_layer=2, im_start_token_id=0, im_end_token_id=1, user_token_id=2, assistant_token_id=3,
    system_token_id=4, tts_pad_token_id=5, tts_bos_token_id=6, tts_eos_token_id=7, enable_audio_output=True,
)  # fmt: skip
PROMPTS = np.array([9, 21, 14])
STEPS = 5


class Model:
    """A Thinker with random weights, on disk."""

    def __init__(self, config: ThinkerConfig, directory: Path) -> None:
        rng = np.random.default_rng(23)
        self.config, self.directory = config, directory
        self.weights = random_stack("thinker.model", config.decoder, rng, config.moe)
        shape = (config.decoder.vocab_size, config.decoder.hidden_size)
        self.weights["thinker.lm_head.weight"] = rng.standard_normal(shape, np.float32) / 8
        self.tensors = saved(self.weights, directory)
        self.embeds = rng.standard_normal((3, int(PROMPTS.max()) + STEPS, config.decoder.hidden_size), np.float32)

    def open(self, batch: int, threads: int = 1) -> Decoder:
        found = session(author_thinker(self.config, self.tensors), self.directory, threads)
        return Decoder(found, self.config.decoder, batch, 40)

    def think(self, sequences: list[int]) -> list[dict[str, np.ndarray]]:
        """Prefill and steps of the given sequences together; the outputs of every pass."""
        opened, lengths = self.open(len(sequences)), PROMPTS[sequences]
        prompt = self.embeds[sequences, : lengths.max()].copy()
        for row, length in enumerate(lengths):
            prompt[row, length:] = 7.0  # padding rows must not matter
        results = [opened.run(prompt, lengths - 1)]
        for step in range(STEPS):
            rows = self.embeds[sequences, lengths + step][:, None]
            results.append(opened.run(rows, np.zeros(len(sequences), np.int64)))
        return results


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(CONFIG, tmp_path_factory.mktemp("thinker"))


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(CONFIG, accept_hidden_layer=1, moe=replace(EXPERTS, dense_layers=(), norm_topk_prob=False)),
        replace(CONFIG, accept_hidden_layer=0, moe=replace(EXPERTS, dense_layers=(0, 1, 2))),
    ],
    ids=["one dense layer", "experts everywhere", "no experts and no Talker"],
)
def test_prefill_and_steps_of_a_ragged_batch_equal_the_float64_oracle(tmp_path: Path, config: ThinkerConfig) -> None:
    model = Model(config, tmp_path)
    results = model.think([0, 1, 2])
    head = model.weights["thinker.lm_head.weight"].astype(np.float64)
    norm = model.weights["thinker.model.norm.weight"].astype(np.float64)
    for sequence, length in enumerate(PROMPTS):
        rows = model.embeds[sequence, : length + STEPS]
        states = layer_outputs(model.weights, "thinker.model", DIMENSIONS, rows, config.moe)
        prompt, *steps = (found["accept_hidden"][sequence] for found in results)
        accepted = np.concatenate([prompt[:length], *steps])
        np.testing.assert_allclose(accepted, states[config.accept_hidden_layer], atol=2e-5, rtol=0)
        for step, found in enumerate(results):
            expected = head @ rms_norm(states[-1][length - 1 + step], norm, DIMENSIONS.rms_norm_eps)
            np.testing.assert_allclose(found["logits"][sequence], expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("sequence", range(3))
def test_a_sequence_gives_the_same_bits_alone_and_in_a_batch(model: Model, sequence: int) -> None:
    for together, alone in zip(model.think([0, 1, 2]), model.think([sequence]), strict=True):
        assert_same_bits(together["logits"][sequence], alone["logits"][0])
        rows = alone["accept_hidden"].shape[1]
        assert_same_bits(together["accept_hidden"][sequence, :rows], alone["accept_hidden"][0])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cuts", [[7, 7, 7], [1] * 21, [2, 8, 11]], ids=str)
def test_a_prompt_gives_the_same_bits_in_one_pass_and_in_several(model: Model, cuts: list[int], threads: int) -> None:
    cut, whole = model.open(1, threads), model.open(1)
    at_once = whole.run(model.embeds[1:2, :21], np.array([20]))
    parts = np.split(model.embeds[1:2, :21], np.cumsum(cuts)[:-1], axis=1)
    found = [cut.run(part, np.array([part.shape[1] - 1])) for part in parts]
    assert_same_bits(found[-1]["logits"], at_once["logits"])
    assert_same_bits(np.concatenate([part["accept_hidden"] for part in found], axis=1), at_once["accept_hidden"])


def test_names_and_shapes_of_inputs_and_outputs_are_the_contract(model: Model) -> None:
    opened = model.open(1).session
    cache = ["batch", 2, "capacity", 16]
    caches = [(f"{kind}_{layer}", cache) for layer in range(3) for kind in ("key", "value")]
    assert [(info.name, info.shape) for info in opened.get_inputs()] == [
        ("inputs_embeds", ["batch", "new", 64]),
        ("attention_mask", ["batch", "new", "capacity"]),
        ("rope_cos", ["batch", "new", 8]),
        ("rope_sin", ["batch", "new", 8]),
        ("write_indices", ["batch"]),
        ("last_row", ["batch", 1]),
        *((f"past_{name}", shape) for name, shape in caches),
    ]
    assert [(info.name, info.shape) for info in opened.get_outputs()] == [
        *((f"present_{name}", shape) for name, shape in caches),
        ("logits", ["batch", 200]),
        ("accept_hidden", ["batch", "new", 64]),
    ]


@pytest.mark.parametrize(
    "name",
    ["lm_head.weight", "model.norm.weight", "model.layers.1.mlp.up_proj.weight", "model.layers.2.mlp.gate.weight"],
)
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    weights = Model(CONFIG, tmp_path).weights
    del weights[f"thinker.{name}"]
    with pytest.raises(CheckpointError, match=rf"tensor 'thinker\.{name}' is missing"):
        author_thinker(CONFIG, saved(weights, tmp_path))
