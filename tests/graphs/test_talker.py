"""The Talker's graph, dense and with experts, against the float64 oracle, with ragged batches and steps."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from cpspec_trt.files.engine_config import DecoderDimensions, MoeDimensions, OmniTalkerConfig, TalkerConfig
from cpspec_trt.graphs.talker import author_talker
from tests.graphs.decoder_oracle import decoder
from tests.graphs.decoder_runs import Decoder, assert_same_bits, random_stack, saved, session

DIMENSIONS = DecoderDimensions(
    num_hidden_layers=2, hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
    head_dim=16, vocab_size=1088, max_position_embeddings=4096, rms_norm_eps=1e-6, rope_theta=1e6,
)  # fmt: skip
CONFIG = TalkerConfig(
    model="qwen3_tts_talker", checkpoint_fingerprint="0" * 64, model_type="custom_voice", model_size="0b6",
    decoder=DIMENSIONS, text_hidden_size=8, text_vocab_size=16, num_code_groups=16, im_start_token_id=0,
    im_end_token_id=1, assistant_token_id=2, tts_pad_token_id=3, tts_bos_token_id=4, tts_eos_token_id=5,
    codec_pad_id=6, codec_bos_id=7, codec_eos_id=8, codec_think_id=9, codec_nothink_id=10, codec_think_bos_id=11,
    codec_think_eos_id=12, languages=MappingProxyType({}), speakers=MappingProxyType({}), dialects=MappingProxyType({}),
)  # fmt: skip
EXPERTS = MoeDimensions(
    num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True,
    shared_expert_intermediate_size=40, dense_layers=(),
)  # fmt: skip
OMNI_CONFIG = OmniTalkerConfig(
    model="qwen3_omni_moe_talker", checkpoint_fingerprint="0" * 64, decoder=DIMENSIONS, moe=EXPERTS,
    thinker_hidden_size=8, accept_hidden_layer=1, num_code_groups=16, codec_pad_id=6, codec_bos_id=7, codec_eos_id=8,
    codec_nothink_id=10, codec_think_bos_id=11, codec_think_eos_id=12, speakers=MappingProxyType({"ethan": 13}),
)  # fmt: skip
CONFIGS: dict[str, TalkerConfig | OmniTalkerConfig] = {"dense": CONFIG, "experts": OMNI_CONFIG}
PROMPTS = np.array([9, 21, 14])
STEPS = 6


class Model:
    """A Talker with random weights, on disk."""

    def __init__(self, config: TalkerConfig | OmniTalkerConfig, directory: Path) -> None:
        rng = np.random.default_rng(17)
        self.config, self.directory = config, directory
        self.moe = config.moe if isinstance(config, OmniTalkerConfig) else None
        self.weights = random_stack("talker.model", DIMENSIONS, rng, self.moe)
        shape = (DIMENSIONS.vocab_size, DIMENSIONS.hidden_size)
        self.weights["talker.codec_head.weight"] = rng.standard_normal(shape, np.float32) / 8
        self.tensors = saved(self.weights, directory)
        self.embeds = rng.standard_normal((3, int(PROMPTS.max()) + STEPS, DIMENSIONS.hidden_size), np.float32)

    def open(self, batch: int, capacity: int = 40) -> Decoder:
        return Decoder(session(author_talker(self.config, self.tensors), self.directory), DIMENSIONS, batch, capacity)

    def speak(self, sequences: list[int], capacity: int = 40) -> list[dict[str, np.ndarray]]:
        """Prefill and steps of the given sequences together; the outputs of every pass."""
        opened, lengths = self.open(len(sequences), capacity), PROMPTS[sequences]
        prompt = self.embeds[sequences, : lengths.max()].copy()
        for row, length in enumerate(lengths):
            prompt[row, length:] = 7.0  # padding rows must not matter
        results = [opened.run(prompt, lengths - 1)]
        for step in range(STEPS):
            rows = self.embeds[sequences, lengths + step][:, None]
            results.append(opened.run(rows, np.zeros(len(sequences), np.int64)))
        return results


@pytest.fixture(scope="module", params=CONFIGS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(CONFIGS[request.param], tmp_path_factory.mktemp("talker"))


def test_prefill_and_steps_of_a_ragged_batch_equal_the_float64_oracle(model: Model) -> None:
    results = model.speak([0, 1, 2])
    head = model.weights["talker.codec_head.weight"].astype(np.float64)
    for sequence, length in enumerate(PROMPTS):
        rows = decoder(model.weights, "talker.model", DIMENSIONS, model.embeds[sequence, : length + STEPS], model.moe)
        for step, found in enumerate(results):
            expected = rows[length - 1 + step]
            np.testing.assert_allclose(found["hidden_states"][sequence], expected, atol=2e-5, rtol=0)
            np.testing.assert_allclose(found["logits"][sequence], head @ expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("sequence", range(3))
def test_a_sequence_gives_the_same_bits_alone_and_in_a_batch(model: Model, sequence: int) -> None:
    for together, alone in zip(model.speak([0, 1, 2]), model.speak([sequence]), strict=True):
        for name in ("logits", "hidden_states"):
            assert_same_bits(together[name][sequence], alone[name][0])


@pytest.mark.parametrize("capacity", [27, 64, 129, 512])
def test_bits_do_not_depend_on_the_capacity_of_the_cache(model: Model, capacity: int) -> None:
    for larger, usual in zip(model.speak([1], capacity), model.speak([1]), strict=True):
        for name in ("logits", "hidden_states"):
            assert_same_bits(larger[name], usual[name])


def test_a_prompt_gives_the_same_bits_in_one_pass_and_in_several(model: Model) -> None:
    cut, whole = model.open(1), model.open(1)
    for start in range(0, 21, 7):
        in_parts = cut.run(model.embeds[1:2, start : start + 7], np.array([6]))
    at_once = whole.run(model.embeds[1:2, :21], np.array([20]))
    for name in ("logits", "hidden_states"):
        assert_same_bits(in_parts[name], at_once[name])


def test_names_and_shapes_of_inputs_and_outputs_are_the_contract(model: Model) -> None:
    opened = model.open(1).session
    cache = ["batch", 2, "capacity", 16]
    caches = [(f"{kind}_{layer}", cache) for layer in range(2) for kind in ("key", "value")]
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
        ("logits", ["batch", 1088]),
        ("hidden_states", ["batch", 64]),
    ]
