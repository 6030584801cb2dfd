"""From the published configuration to the three component configs: exact values, and no defaults."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.checkpoint.qwen3_tts import read_code2wav_config, read_code_predictor_config, read_talker_config
from cpspec_trt.checkpoint.reader import Checkpoint, open_checkpoint
from cpspec_trt.errors import CheckpointError, CpspecError, UnsupportedError
from tests.checkpoint.changes import FieldPath, changed

DEMO_VOICE = Path(__file__).parents[2] / "assets" / "demo-voice" / "checkpoint"
FINGERPRINT = "f" * 64
MODEL: dict[str, Any] = json.loads((DEMO_VOICE / "config.json").read_text())
SPEECH: dict[str, Any] = json.loads((DEMO_VOICE / "speech_tokenizer" / "config.json").read_text())


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The demo voice, its large files linked rather than copied."""
    shutil.copytree(DEMO_VOICE, tmp_path / "voice", copy_function=lambda a, b: Path(b).symlink_to(a))
    return tmp_path / "voice"


def opened_with(directory: Path, model: dict[str, Any] = MODEL, speech: dict[str, Any] = SPEECH) -> Checkpoint:
    for path, value in ((directory / "config.json", model), (directory / "speech_tokenizer" / "config.json", speech)):
        path.unlink()
        path.write_text(json.dumps(value))
    return open_checkpoint(directory)


def read_all(checkpoint: Checkpoint) -> None:
    read_talker_config(checkpoint, FINGERPRINT)
    read_code_predictor_config(checkpoint, FINGERPRINT)
    read_code2wav_config(checkpoint, FINGERPRINT)


def test_the_talker_of_the_demo_voice() -> None:
    config = read_talker_config(open_checkpoint(DEMO_VOICE), FINGERPRINT)
    decoder = config.decoder
    assert config.model == "qwen3_tts_talker"
    assert config.checkpoint_fingerprint == FINGERPRINT
    assert (config.model_type, config.model_size, config.num_code_groups) == ("custom_voice", "0b6", 16)
    assert (decoder.num_hidden_layers, decoder.hidden_size, decoder.intermediate_size) == (4, 256, 512)
    assert (decoder.num_attention_heads, decoder.num_key_value_heads, decoder.head_dim) == (4, 2, 64)
    assert (decoder.vocab_size, decoder.max_position_embeddings) == (1280, 2048)
    assert (decoder.rms_norm_eps, decoder.rope_theta) == (1e-6, 10000.0)
    assert (config.text_hidden_size, config.text_vocab_size) == (128, 688)
    assert (config.im_start_token_id, config.im_end_token_id, config.assistant_token_id) == (676, 677, 669)
    assert (config.tts_pad_token_id, config.tts_bos_token_id, config.tts_eos_token_id) == (685, 686, 687)
    assert (config.codec_pad_id, config.codec_bos_id, config.codec_eos_id) == (356, 357, 358)
    assert (config.codec_think_id, config.codec_nothink_id) == (362, 363)
    assert (config.codec_think_bos_id, config.codec_think_eos_id) == (364, 365)
    assert dict(config.languages) == {"english": 258}
    assert dict(config.speakers) == {"ryan": 1070, "vivian": 1069}
    assert dict(config.dialects) == {}


def test_the_code_predictor_of_the_demo_voice() -> None:
    config = read_code_predictor_config(open_checkpoint(DEMO_VOICE), FINGERPRINT)
    decoder = config.decoder
    assert config.model == "qwen3_tts_code_predictor"
    assert (config.num_code_groups, config.talker_hidden_size) == (16, 256)
    assert (decoder.num_hidden_layers, decoder.hidden_size, decoder.intermediate_size) == (2, 192, 512)
    assert (decoder.num_attention_heads, decoder.num_key_value_heads, decoder.head_dim) == (6, 2, 32)
    assert (decoder.vocab_size, decoder.max_position_embeddings, decoder.rope_theta) == (256, 64, 10000.0)


def test_the_decoder_of_the_demo_voice() -> None:
    config = read_code2wav_config(open_checkpoint(DEMO_VOICE), FINGERPRINT)
    assert config.model == "qwen3_tts_code2wav"
    assert (config.num_quantizers, config.codebook_size, config.codebook_dim) == (16, 256, 128)
    assert (config.latent_dim, config.hidden_size, config.intermediate_size) == (128, 128, 256)
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (2, 4, 4)
    assert (config.head_dim, config.sliding_window, config.decoder_dim) == (32, 24, 192)
    assert (config.rms_norm_eps, config.rope_theta) == (1e-5, 10000.0)
    assert (config.upsample_rates, config.upsampling_ratios) == ((8, 5, 4, 3), (2, 2))
    assert (config.samples_per_frame, config.sample_rate) == (1920, 24000)


def test_an_undeclared_codebook_dim_comes_from_the_tensors(directory: Path) -> None:
    checkpoint = opened_with(directory, speech=changed(SPEECH, ("decoder_config", "codebook_dim"), remove=True))
    assert read_code2wav_config(checkpoint, FINGERPRINT).codebook_dim == 128


def test_dialect_speakers_are_mapped_to_their_language(directory: Path) -> None:
    model = changed(MODEL, ("talker_config", "codec_language_id"), {"english": 258, "sichuan_dialect": 262})
    model = changed(model, ("talker_config", "spk_is_dialect"), {"ryan": False, "vivian": "sichuan_dialect"})
    config = read_talker_config(opened_with(directory, model), FINGERPRINT)
    assert dict(config.dialects) == {"vivian": "sichuan_dialect"}


def test_a_voice_design_checkpoint_needs_no_speakers(directory: Path) -> None:
    model = changed(MODEL, ("tts_model_type",), "voice_design")
    for field in ("spk_id", "spk_is_dialect"):
        model = changed(model, ("talker_config", field), remove=True)
    config = read_talker_config(opened_with(directory, model), FINGERPRINT)
    assert (config.model_type, dict(config.speakers), dict(config.dialects)) == ("voice_design", {}, {})


TALKER: FieldPath = ("talker_config",)
PREDICTOR: FieldPath = ("talker_config", "code_predictor_config")
DECODER: FieldPath = ("decoder_config",)
STACK = (
    "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "rms_norm_eps", "rope_theta", "hidden_act",
)  # fmt: skip
NEEDED_BY_MODEL: list[FieldPath] = [
    *((field,) for field in (
        "model_type", "tokenizer_type", "tts_model_type", "tts_model_size", "im_start_token_id", "im_end_token_id",
        "assistant_token_id", "tts_pad_token_id", "tts_bos_token_id", "tts_eos_token_id", "talker_config",
    )),
    *((*TALKER, field) for field in (
        *STACK, "vocab_size", "max_position_embeddings", "text_hidden_size", "text_vocab_size", "num_code_groups",
        "codec_pad_id", "codec_bos_id", "codec_eos_token_id", "codec_think_id", "codec_nothink_id",
        "codec_think_bos_id", "codec_think_eos_id", "codec_language_id", "spk_id", "spk_is_dialect",
        "code_predictor_config",
    )),
    *((*PREDICTOR, field) for field in (*STACK, "vocab_size", "max_position_embeddings", "num_code_groups")),
    (*TALKER, "spk_is_dialect", "ryan"),
]  # fmt: skip
NEEDED_BY_SPEECH: list[FieldPath] = [
    ("model_type",), ("output_sample_rate",), ("decode_upsample_rate",), DECODER,
    *((*DECODER, field) for field in (
        *STACK, "num_quantizers", "codebook_size", "latent_dim", "sliding_window", "decoder_dim", "upsample_rates",
        "upsampling_ratios",
    )),
]  # fmt: skip


@pytest.mark.parametrize("path", NEEDED_BY_MODEL, ids=".".join)
@pytest.mark.parametrize("null", [False, True], ids=["absent", "null"])
def test_a_missing_model_field_is_named_and_has_no_default(directory: Path, path: FieldPath, null: bool) -> None:
    with pytest.raises(CheckpointError, match=rf"config\.json: required field '{'.'.join(path)}' is missing"):
        read_all(opened_with(directory, changed(MODEL, path, None, remove=not null)))


@pytest.mark.parametrize("path", NEEDED_BY_SPEECH, ids=".".join)
def test_a_missing_codec_field_is_named_and_has_no_default(directory: Path, path: FieldPath) -> None:
    checkpoint = opened_with(directory, speech=changed(SPEECH, path, remove=True))
    with pytest.raises(
        CheckpointError, match=rf"speech_tokenizer/config\.json: required field '{'.'.join(path)}' is missing"
    ):
        read_all(checkpoint)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((*TALKER, "hidden_size"), "256", "field 'talker_config.hidden_size' must be a whole number, found '256'"),
        ((*TALKER, "hidden_size"), True, "field 'talker_config.hidden_size' must be a whole number, found True"),
        ((*TALKER, "hidden_size"), 0, "field 'talker_config.hidden_size' is 0, expected at least 1"),
        ((*TALKER, "rms_norm_eps"), -1e-6, "field 'talker_config.rms_norm_eps' is -1e-06, expected a positive number"),
        ((*TALKER, "code_predictor_config"), [], "'talker_config.code_predictor_config' must be an object, found []"),
        ((*TALKER, "codec_bos_id"), 1280, "'talker_config.codec_bos_id' is 1280, expected at least 0 and below 1280"),
        ((*TALKER, "spk_id"), {"ryan": 1280}, "'talker_config.spk_id.ryan' is 1280, expected at least 0 and below"),
        (
            (*TALKER, "spk_id"),
            {},
            "'talker_config.spk_id' names no speaker, but tts_model_type is 'custom_voice'; copy",
        ),
        ((*TALKER, "num_hidden_layers"), 10**12, "num_hidden_layers' is 1000000000000, expected at least 1 and below"),
        ((*PREDICTOR, "num_hidden_layers"), 10**12, "num_hidden_layers' is 1000000000000, expected at least 1 and"),
        ((*PREDICTOR, "num_attention_heads"), 10**12, "num_attention_heads' is 1000000000000, expected at least 1"),
        ((*TALKER, "spk_is_dialect"), {"ryan": "cantonese", "vivian": False}, "'cantonese', which talker_config.codec"),
        ((*TALKER, "spk_is_dialect"), {"ryan": True, "vivian": False}, "'talker_config.spk_is_dialect.ryan' must be"),
        (("tts_bos_token_id",), 688, "field 'tts_bos_token_id' is 688, expected at least 0 and below 688"),
        (("tts_model_size",), "", "field 'tts_model_size' is empty"),
        ((*PREDICTOR, "num_code_groups"), 32, "is 32, but talker_config.num_code_groups is 16"),
        ((*PREDICTOR, "num_code_groups"), 1, "code_predictor_config.num_code_groups' is 1, expected at least 2"),
        ((*PREDICTOR, "num_key_value_heads"), 4, "is 4, which does not divide 6 attention heads"),
        ((*PREDICTOR, "head_dim"), 33, "is 33, rotary positions need an even number"),
        (
            (*TALKER, "rope_parameters"),
            {"rope_theta": 1e6, "rope_type": "default"},
            "'talker_config.rope_theta' is 10000.0, but rope_parameters has 1000000.0",
        ),
    ],
)
def test_a_wrong_model_field_is_named_with_its_value(
    directory: Path, path: FieldPath, value: object, message: str
) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_all(opened_with(directory, changed(MODEL, path, value)))
    assert str(caught.value).startswith(f"{directory / 'config.json'}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("decode_upsample_rate",), 1921, "field 'decode_upsample_rate' is 1921, the rates give 1920"),
        (
            (*DECODER, "upsample_rates"),
            [8, 5, 4, 0],
            "'decoder_config.upsample_rates' is [8, 5, 4, 0], expected a list",
        ),
        ((*DECODER, "sliding_window"), 1, "sliding_window' is 1, expected at least 2 and below 65537; copy the file"),
        ((*DECODER, "sliding_window"), 10**9, "sliding_window' is 1000000000, expected at least 2 and below 65537"),
        ((*DECODER, "num_quantizers"), 10**12, "num_quantizers' is 1000000000000, expected at least 2"),
        ((*DECODER, "upsample_rates"), [], "'decoder_config.upsample_rates' is [], expected a list"),
        ((*DECODER, "upsample_rates"), 1920, "'decoder_config.upsample_rates' must be a list, found 1920"),
    ],
)
def test_a_wrong_codec_field_is_named_with_its_value(
    directory: Path, path: FieldPath, value: object, message: str
) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_all(opened_with(directory, speech=changed(SPEECH, path, value)))
    assert str(caught.value).startswith(f"{directory / 'speech_tokenizer' / 'config.json'}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("tts_model_type",), "base", "tts_model_type is 'base': voice cloning is not supported; use a CustomVoice or"),
        (("tts_model_type",), "singing", "tts_model_type 'singing' is neither 'custom_voice' nor 'voice_design'"),
        (("model_type",), "qwen3_omni_moe", "model_type 'qwen3_omni_moe' is not supported"),
        (("tokenizer_type",), "qwen3_tts_tokenizer_25hz", "tokenizer_type 'qwen3_tts_tokenizer_25hz' is not"),
        ((*TALKER, "rope_scaling", "rope_type"), "yarn", "'talker_config.rope_scaling.rope_type' is 'yarn'"),
        ((*PREDICTOR, "rope_scaling"), {"type": "linear"}, "'talker_config.code_predictor_config.rope_scaling.type'"),
        ((*PREDICTOR, "rope_parameters"), {"rope_type": "llama3"}, "rope_parameters.rope_type' is 'llama3'"),
        ((*TALKER, "hidden_act"), "gelu", "field 'talker_config.hidden_act' is 'gelu', this release supports only"),
        ((*TALKER, "attention_bias"), True, "field 'talker_config.attention_bias' is True"),
        ((*TALKER, "use_sliding_window"), True, "field 'talker_config.use_sliding_window' is True"),
        ((*PREDICTOR, "layer_types"), ["sliding_attention"] * 2, "code_predictor_config.layer_types' is"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    directory: Path, path: FieldPath, value: object, message: str
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read_all(opened_with(directory, changed(MODEL, path, value)))
    assert message in str(caught.value)


def test_another_codec_is_refused_by_name(directory: Path) -> None:
    checkpoint = opened_with(directory, speech=changed(SPEECH, ("model_type",), "qwen3_tts_tokenizer_25hz"))
    with pytest.raises(UnsupportedError, match="codec 'qwen3_tts_tokenizer_25hz' is not supported"):
        read_code2wav_config(checkpoint, FINGERPRINT)


@pytest.mark.parametrize("also_older", [False, True])
def test_the_newer_rope_parameters_are_read_like_the_older_fields(directory: Path, also_older: bool) -> None:
    scaling = MODEL["talker_config"]["rope_scaling"] | {"rope_theta": 123456}
    model = changed(MODEL, (*TALKER, "rope_parameters"), scaling)
    model = changed(model, (*TALKER, "rope_scaling"), remove=True)
    model = changed(model, (*TALKER, "rope_theta"), 123456, remove=not also_older)
    assert read_talker_config(opened_with(directory, model), FINGERPRINT).decoder.rope_theta == 123456.0


def test_rope_theta_may_stand_beside_rope_parameters(directory: Path) -> None:
    model = changed(MODEL, (*TALKER, "rope_parameters"), {"rope_type": "default"})
    assert read_talker_config(opened_with(directory, model), FINGERPRINT).decoder.rope_theta == 10000.0


@pytest.mark.parametrize("text", ["", "[]", '{"model_type": NaN}', '{"a": 1, "a": 2}'])
def test_a_config_that_is_no_json_object_is_refused(directory: Path, text: str) -> None:
    (directory / "config.json").unlink()
    (directory / "config.json").write_text(text)
    with pytest.raises(CpspecError, match=r"config\.json: "):
        read_all(open_checkpoint(directory))
