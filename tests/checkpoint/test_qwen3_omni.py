"""From a Qwen3-Omni configuration, as transformers 5 saves it or as published before, to our four configs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cpspec_trt.checkpoint.qwen3_omni import (
    has_audio_output,
    read_code2wav_config,
    read_code_predictor_config,
    read_talker_config,
    read_thinker_config,
    trimmed_samples,
)
from cpspec_trt.checkpoint.reader import Checkpoint, open_checkpoint
from cpspec_trt.errors import CheckpointError, UnsupportedError
from cpspec_trt.files.engine_config import ComponentConfig
from tests.checkpoint.changes import OMNI, PRETRAINED, FieldPath, Json, changed, legacy

FINGERPRINT = "f" * 64


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The checkpoint that transformers saved, its large files linked rather than copied."""
    shutil.copytree(PRETRAINED, tmp_path / "omni", copy_function=lambda a, b: Path(b).symlink_to(a))
    return tmp_path / "omni"


def opened_with(directory: Path, config: Json) -> Checkpoint:
    (directory / "config.json").unlink()
    (directory / "config.json").write_text(json.dumps(config))
    return open_checkpoint(directory)


def read_all(checkpoint: Checkpoint) -> list[ComponentConfig]:
    return [
        read_thinker_config(checkpoint, FINGERPRINT),
        read_talker_config(checkpoint, FINGERPRINT),
        read_code_predictor_config(checkpoint, FINGERPRINT),
        read_code2wav_config(checkpoint, FINGERPRINT),
    ]


def test_the_thinker() -> None:
    config = read_thinker_config(open_checkpoint(PRETRAINED), FINGERPRINT)
    decoder, moe = config.decoder, config.moe
    assert (config.model, config.checkpoint_fingerprint) == ("qwen3_omni_moe_thinker", FINGERPRINT)
    assert (decoder.num_hidden_layers, decoder.hidden_size, decoder.intermediate_size) == (3, 48, 40)
    assert (decoder.num_attention_heads, decoder.num_key_value_heads, decoder.head_dim) == (4, 2, 16)
    assert (decoder.vocab_size, decoder.max_position_embeddings) == (336, 4096)
    assert (decoder.rms_norm_eps, decoder.rope_theta) == (1e-6, 1e6)
    assert (moe.num_experts, moe.num_experts_per_tok, moe.moe_intermediate_size) == (5, 2, 24)
    assert (moe.norm_topk_prob, moe.shared_expert_intermediate_size, moe.dense_layers) == (False, 0, (1,))
    assert (config.accept_hidden_layer, config.enable_audio_output) == (2, True)
    assert (config.im_start_token_id, config.im_end_token_id) == (301, 302)
    assert (config.tts_pad_token_id, config.tts_bos_token_id, config.tts_eos_token_id) == (328, 329, 330)
    roles = (config.system_token_id, config.user_token_id, config.assistant_token_id)
    assert roles == (OMNI["system_token_id"], OMNI["user_token_id"], OMNI["assistant_token_id"])


def test_the_talker() -> None:
    config = read_talker_config(open_checkpoint(PRETRAINED), FINGERPRINT)
    decoder, moe = config.decoder, config.moe
    assert config.model == "qwen3_omni_moe_talker"
    assert (decoder.num_hidden_layers, decoder.hidden_size, decoder.intermediate_size) == (2, 32, 40)
    assert (decoder.vocab_size, config.thinker_hidden_size, config.num_code_groups) == (1056, 48, 4)
    assert (moe.num_experts, moe.num_experts_per_tok, moe.moe_intermediate_size) == (4, 2, 16)
    assert (moe.norm_topk_prob, moe.shared_expert_intermediate_size, moe.dense_layers) == (True, 24, ())
    assert config.accept_hidden_layer == 2
    assert (config.codec_pad_id, config.codec_bos_id, config.codec_eos_id) == (132, 133, 134)
    assert (config.codec_nothink_id, config.codec_think_bos_id, config.codec_think_eos_id) == (139, 140, 141)
    assert dict(config.speakers) == {"aiden": 287, "chelsie": 285, "ethan": 286}


def test_the_code_predictor() -> None:
    config = read_code_predictor_config(open_checkpoint(PRETRAINED), FINGERPRINT)
    decoder = config.decoder
    assert config.model == "qwen3_omni_moe_talker_code_predictor"
    assert (config.num_code_groups, config.talker_hidden_size) == (4, 32)
    assert (decoder.num_hidden_layers, decoder.hidden_size, decoder.intermediate_size) == (2, 32, 48)
    assert (decoder.vocab_size, decoder.max_position_embeddings, decoder.rope_theta) == (32, 64, 1e6)


def test_code2wav() -> None:
    config = read_code2wav_config(open_checkpoint(PRETRAINED), FINGERPRINT)
    assert config.model == "qwen3_omni_moe_code2wav"
    assert (config.num_quantizers, config.codebook_size, config.hidden_size) == (4, 32, 24)
    assert (config.intermediate_size, config.num_hidden_layers, config.sliding_window) == (32, 2, 6)
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (4, 4, 6)
    assert (config.decoder_dim, config.rms_norm_eps, config.rope_theta) == (16, 1e-5, 1e4)
    assert (config.upsample_rates, config.upsampling_ratios) == ((4, 3), (2, 2))
    assert (config.samples_per_frame, config.trimmed_samples, config.sample_rate) == (48, 15, 24000)


@pytest.mark.parametrize(
    ("rates", "ratios", "frames", "samples"), [((8, 5, 4, 3), (2, 2), 100, 191_445), ((4, 3), (2, 2), 12, 561)]
)
def test_a_sequence_is_short_of_whole_frames_by_what_the_convolutions_trim(
    rates: tuple[int, ...], ratios: tuple[int, ...], frames: int, samples: int
) -> None:
    length = frames
    for ratio in ratios:
        length *= ratio
    for rate in rates:
        length = (length + 1) * rate - 2 * rate  # kernel 2 rate, then both sides trimmed
    assert length == samples
    whole = frames
    for factor in (*ratios, *rates):
        whole *= factor
    assert whole - trimmed_samples(rates) == samples


def test_the_words_of_published_checkpoints_mean_the_same(directory: Path) -> None:
    config = legacy(OMNI)
    assert "rope_parameters" not in json.dumps(config)
    assert config["talker_config"]["text_config"]["num_experts"] == 4
    assert read_all(opened_with(directory, config)) == read_all(open_checkpoint(PRETRAINED))


@pytest.mark.parametrize(
    ("listed", "step", "dense"),
    [([], 1, ()), ([0, 2], 1, (0, 2)), ([], 2, (0, 2)), ([1], 2, (0, 1, 2)), ([], 4, (0, 1, 2))],
)
def test_layers_without_experts_are_those_listed_and_those_between_the_steps(
    directory: Path, listed: list[int], step: int, dense: tuple[int, ...]
) -> None:
    config = changed(OMNI, (*THINKER, "mlp_only_layers"), listed)
    config = changed(config, (*THINKER, "decoder_sparse_step"), step)
    assert read_thinker_config(opened_with(directory, config), FINGERPRINT).moe.dense_layers == dense


def test_a_declared_width_of_the_vocoders_heads_is_used(directory: Path) -> None:
    config = changed(OMNI, ("code2wav_config", "head_dim"), 8)
    assert read_code2wav_config(opened_with(directory, config), FINGERPRINT).head_dim == 8


def test_a_checkpoint_without_audio_output_needs_only_its_thinker(directory: Path) -> None:
    config = changed(OMNI, ("enable_audio_output",), False)
    for field in ("talker_config", "code2wav_config"):
        config = changed(config, (field,), remove=True)
    checkpoint = opened_with(directory, config)
    assert not has_audio_output(checkpoint)
    thinker = read_thinker_config(checkpoint, FINGERPRINT)
    assert (thinker.enable_audio_output, thinker.accept_hidden_layer) == (False, 0)


THINKER: FieldPath = ("thinker_config", "text_config")
TALKER: FieldPath = ("talker_config",)
TEXT: FieldPath = ("talker_config", "text_config")
PREDICTOR: FieldPath = ("talker_config", "code_predictor_config")
CODE2WAV: FieldPath = ("code2wav_config",)
LAYERS = (
    "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
    "rms_norm_eps", "hidden_act",
)  # fmt: skip
STACK = (*LAYERS, "head_dim", "vocab_size", "max_position_embeddings")
EXPERTS = ("num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob")
NEEDED: list[FieldPath] = [
    *((field,) for field in (
        "model_type", "enable_audio_output", "im_start_token_id", "im_end_token_id", "system_token_id",
        "user_token_id", "assistant_token_id", "tts_pad_token_id", "tts_bos_token_id", "tts_eos_token_id",
        "thinker_config", "talker_config", "code2wav_config",
    )),
    THINKER,
    *((*THINKER, field) for field in (*STACK, *EXPERTS, "num_experts", "decoder_sparse_step", "mlp_only_layers")),
    *((*TALKER, field) for field in (
        "text_config", "code_predictor_config", "num_code_groups", "thinker_hidden_size", "accept_hidden_layer",
        "codec_pad_id", "codec_bos_id", "codec_eos_token_id", "codec_nothink_id", "codec_think_bos_id",
        "codec_think_eos_id", "speaker_id",
    )),
    *((*TEXT, field) for field in (*STACK, *EXPERTS, "shared_expert_intermediate_size")),
    *((*PREDICTOR, field) for field in (*STACK, "num_code_groups")),
    *((*CODE2WAV, field) for field in (
        *LAYERS, "num_quantizers", "codebook_size", "sliding_window", "decoder_dim", "upsample_rates",
        "upsampling_ratios",
    )),
]  # fmt: skip


@pytest.mark.parametrize("path", NEEDED, ids=".".join)
@pytest.mark.parametrize("null", [False, True], ids=["absent", "null"])
def test_a_missing_field_is_named_and_has_no_default(directory: Path, path: FieldPath, null: bool) -> None:
    with pytest.raises(CheckpointError, match=rf"config\.json: required field '{'.'.join(path)}' is missing"):
        read_all(opened_with(directory, changed(OMNI, path, None, remove=not null)))


@pytest.mark.parametrize("section", [THINKER, TEXT, PREDICTOR, CODE2WAV], ids=".".join)
def test_a_missing_rotary_base_is_named(directory: Path, section: FieldPath) -> None:
    name = ".".join(section)
    newer = changed(OMNI, (*section, "rope_parameters", "rope_theta"), remove=True)
    with pytest.raises(CheckpointError, match=rf"required field '{name}\.rope_parameters\.rope_theta' is missing"):
        read_all(opened_with(directory, newer))
    older = changed(legacy(OMNI), (*section, "rope_theta"), remove=True)
    with pytest.raises(CheckpointError, match=rf"required field '{name}\.rope_theta' is missing"):
        read_all(opened_with(directory, older))


def test_a_missing_number_of_experts_is_named(directory: Path) -> None:
    with pytest.raises(CheckpointError, match=r"required field 'talker_config\.text_config\.num_experts' is missing"):
        read_all(opened_with(directory, changed(OMNI, (*TEXT, "num_local_experts"), remove=True)))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("enable_audio_output",), "yes", "field 'enable_audio_output' must be true or false, found 'yes'"),
        (("tts_bos_token_id",), 336, "field 'tts_bos_token_id' is 336, expected at least 0 and below 336"),
        (("assistant_token_id",), -1, "field 'assistant_token_id' is -1, expected at least 0 and below 336"),
        ((*THINKER, "num_experts_per_tok"), 6, "text_config.num_experts_per_tok' is 6, but there are 5 experts"),
        ((*THINKER, "num_experts"), 0, "field 'thinker_config.text_config.num_experts' is 0, expected at least 1"),
        ((*THINKER, "norm_topk_prob"), 1, "'thinker_config.text_config.norm_topk_prob' must be true or false, found 1"),
        ((*THINKER, "mlp_only_layers"), [3], "mlp_only_layers' is [3], expected a list of numbers of at least 0 and"),
        ((*THINKER, "mlp_only_layers"), [True], "mlp_only_layers' is [True], expected a list of numbers"),
        ((*THINKER, "decoder_sparse_step"), 0, "decoder_sparse_step' is 0, expected at least 1"),
        ((*TALKER, "thinker_hidden_size"), 64, "'talker_config.thinker_hidden_size' is 64, but thinker_config.text_c"),
        ((*TALKER, "accept_hidden_layer"), 3, "accept_hidden_layer' is 3, expected at least 1 and below 3"),
        ((*TALKER, "accept_hidden_layer"), -1, "accept_hidden_layer' is -1, expected at least 1 and below 3"),
        ((*TALKER, "speaker_id"), {}, "field 'talker_config.speaker_id' names no speaker"),
        ((*TALKER, "speaker_id"), {"ethan": 1056}, "'talker_config.speaker_id.ethan' is 1056, expected at least 0"),
        ((*TALKER, "codec_bos_id"), 1056, "'talker_config.codec_bos_id' is 1056, expected at least 0 and below 1056"),
        ((*TALKER, "num_code_groups"), 8, "'talker_config.code_predictor_config.num_code_groups' is 4, but talker_co"),
        ((*PREDICTOR, "hidden_size"), 48, "hidden_size' is 48, but talker_config.text_config.hidden_size is 32"),
        ((*CODE2WAV, "num_attention_heads"), 5, "num_attention_heads' is 5, which does not divide the hidden size 24"),
        ((*CODE2WAV, "num_key_value_heads"), 3, "num_key_value_heads' is 3, which does not divide 4 attention heads"),
        ((*CODE2WAV, "sliding_window"), 1, "sliding_window' is 1, expected at least 2 and below 65537"),
        ((*THINKER, "num_experts"), 10**12, "num_experts' is 1000000000000, expected at least 1 and below 65537"),
        ((*THINKER, "num_hidden_layers"), 10**12, "num_hidden_layers' is 1000000000000, expected at least 1"),
        ((*CODE2WAV, "hidden_size"), 20, "head_dim' is 5, rotary positions need an even number"),
        ((*CODE2WAV, "upsample_rates"), [4, 0], "'code2wav_config.upsample_rates' is [4, 0], expected a list of pos"),
        ((*THINKER, "rope_parameters", "rope_theta"), 10**400, "rope_parameters.rope_theta' is too large: 1000"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(directory: Path, path: FieldPath, value: object, message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_all(opened_with(directory, changed(OMNI, path, value)))
    assert str(caught.value).startswith(f"{directory / 'config.json'}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((*THINKER, "rope_parameters", "rope_type"), "yarn", "text_config.rope_parameters.rope_type' is 'yarn'"),
        ((*THINKER, "tie_word_embeddings"), True, "'thinker_config.text_config.tie_word_embeddings' is True"),
        (("thinker_config", "tie_word_embeddings"), True, "'thinker_config.tie_word_embeddings' is True"),
        ((*THINKER, "hidden_act"), "gelu", "'thinker_config.text_config.hidden_act' is 'gelu'"),
        ((*TEXT, "attention_bias"), True, "'talker_config.text_config.attention_bias' is True"),
        ((*TEXT, "use_sliding_window"), True, "'talker_config.text_config.use_sliding_window' is True"),
        ((*PREDICTOR, "layer_types"), ["sliding_attention"] * 2, "code_predictor_config.layer_types' is"),
        ((*CODE2WAV, "hidden_act"), "relu", "'code2wav_config.hidden_act' is 'relu'"),
        (("model_type",), "qwen2_5_omni", "model_type 'qwen2_5_omni' is not supported"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    directory: Path, path: FieldPath, value: object, message: str
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read_all(opened_with(directory, changed(OMNI, path, value)))
    assert message in str(caught.value)


def test_a_checkpoint_of_the_other_family_is_refused() -> None:
    demo = Path(__file__).parents[2] / "assets" / "demo-voice" / "checkpoint"
    with pytest.raises(UnsupportedError, match="model_type 'qwen3_tts' is not supported, only 'qwen3_omni_moe'"):
        read_thinker_config(open_checkpoint(demo), FINGERPRINT)
