"""Sidecars: what the export writes is what the runtime reads, and every fault is named."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike
from safetensors.numpy import load_file, save_file

from cpspec_trt.errors import EngineError
from cpspec_trt.files import sidecars
from cpspec_trt.files.engine_config import (
    CodePredictorConfig,
    DecoderDimensions,
    MoeDimensions,
    OmniTalkerConfig,
    TalkerConfig,
    ThinkerConfig,
)
from cpspec_trt.files.tensors import TensorSource

RNG = np.random.default_rng(5)
GROUPS, CODEBOOK, WIDTH, TALKER_WIDTH = 4, 6, 8, 12
TEXT_VOCAB, TEXT_WIDTH, CODEC_VOCAB = 9, 10, 14


def dimensions(hidden: int, vocab: int) -> DecoderDimensions:
    return DecoderDimensions(
        num_hidden_layers=1, hidden_size=hidden, intermediate_size=16, num_attention_heads=2, num_key_value_heads=1,
        head_dim=4, vocab_size=vocab, max_position_embeddings=64, rms_norm_eps=1e-6, rope_theta=1e4,
    )  # fmt: skip


CODE_PREDICTOR = CodePredictorConfig(
    model="qwen3_tts_code_predictor", checkpoint_fingerprint="0" * 64, decoder=dimensions(WIDTH, CODEBOOK),
    num_code_groups=GROUPS, talker_hidden_size=TALKER_WIDTH,
)  # fmt: skip
TALKER = TalkerConfig(
    model="qwen3_tts_talker", checkpoint_fingerprint="0" * 64, model_type="custom_voice", model_size="0b6",
    decoder=dimensions(TALKER_WIDTH, CODEC_VOCAB), text_hidden_size=TEXT_WIDTH, text_vocab_size=TEXT_VOCAB,
    num_code_groups=GROUPS, im_start_token_id=0, im_end_token_id=1, assistant_token_id=2, tts_pad_token_id=3,
    tts_bos_token_id=4, tts_eos_token_id=5, codec_pad_id=6, codec_bos_id=7, codec_eos_id=8, codec_think_id=9,
    codec_nothink_id=10, codec_think_bos_id=11, codec_think_eos_id=12, languages=MappingProxyType({}),
    speakers=MappingProxyType({}), dialects=MappingProxyType({}),
)  # fmt: skip
EXPERTS = MoeDimensions(2, 1, 8, True, 0, ())
THINKER = ThinkerConfig(
    model="qwen3_omni_moe_thinker", checkpoint_fingerprint="0" * 64, decoder=dimensions(TEXT_WIDTH, TEXT_VOCAB),
    moe=EXPERTS, accept_hidden_layer=0, im_start_token_id=0, im_end_token_id=1, user_token_id=2, assistant_token_id=3,
    system_token_id=4, tts_pad_token_id=5, tts_bos_token_id=6, tts_eos_token_id=7, enable_audio_output=True,
)  # fmt: skip
OMNI_TALKER = OmniTalkerConfig(
    model="qwen3_omni_moe_talker", checkpoint_fingerprint="0" * 64, decoder=dimensions(TALKER_WIDTH, CODEC_VOCAB),
    moe=EXPERTS, thinker_hidden_size=TEXT_WIDTH, accept_hidden_layer=1, num_code_groups=GROUPS, codec_pad_id=6,
    codec_bos_id=7, codec_eos_id=8, codec_nothink_id=10, codec_think_bos_id=11, codec_think_eos_id=12,
    speakers=MappingProxyType({"ethan": 13}),
)  # fmt: skip

TABLES: dict[str, dict[str, tuple[int, ...]]] = {
    "embedding.safetensors": {"embedding": (CODEC_VOCAB, TALKER_WIDTH)},
    "text_embedding.safetensors": {"text_embedding": (TEXT_VOCAB, TEXT_WIDTH)},
    "text_projection.safetensors": {
        "linear_fc1.weight": (TEXT_WIDTH, TEXT_WIDTH),
        "linear_fc1.bias": (TEXT_WIDTH,),
        "linear_fc2.weight": (TALKER_WIDTH, TEXT_WIDTH),
        "linear_fc2.bias": (TALKER_WIDTH,),
    },
    "codec_embeddings.safetensors": {f"embedding_{i}": (CODEBOOK, TALKER_WIDTH) for i in range(GROUPS - 1)},
    "lm_heads.safetensors": {f"lm_head_{i}.weight": (CODEBOOK, WIDTH) for i in range(GROUPS - 1)},
    "small_to_mtp_projection.safetensors": {"weight": (WIDTH, TALKER_WIDTH), "bias": (WIDTH,)},
}
Contents = dict[str, dict[str, np.ndarray]]


def contents(dtype: DTypeLike = np.float32) -> Contents:
    return {
        file: {name: RNG.normal(size=shape).astype(dtype) for name, shape in tensors.items()}
        for file, tensors in TABLES.items()
    }


def save(directory: Path, found: Contents) -> None:
    for file, tensors in found.items():
        save_file(tensors, directory / file)


def sources(tensors: dict[str, np.ndarray]) -> list[TensorSource]:
    return [TensorSource(name, array.shape, partial(flat_block, array)) for name, array in tensors.items()]


def flat_block(array: np.ndarray) -> list[np.ndarray]:
    return [array.reshape(-1)]


def check_tables(directory: Path, expected: Contents) -> None:
    talker = sidecars.read_talker_sidecars(directory, TALKER)
    predictor = sidecars.read_code_predictor_sidecars(directory, CODE_PREDICTOR)
    projection = expected["text_projection.safetensors"]
    pairs = [
        (talker.codec_embedding, expected["embedding.safetensors"]["embedding"]),
        (talker.text_embedding, expected["text_embedding.safetensors"]["text_embedding"]),
        (talker.fc1_weight, projection["linear_fc1.weight"]),
        (talker.fc1_bias, projection["linear_fc1.bias"]),
        (talker.fc2_weight, projection["linear_fc2.weight"]),
        (talker.fc2_bias, projection["linear_fc2.bias"]),
        (predictor.codec_embeddings, np.stack(list(expected["codec_embeddings.safetensors"].values()))),
        (predictor.lm_heads, np.stack(list(expected["lm_heads.safetensors"].values()))),
    ]
    for found, wanted in pairs:
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, wanted.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_tables_of_every_storage_type_are_read_as_float32(tmp_path: Path, dtype: type) -> None:
    expected = contents(dtype)
    save(tmp_path, expected)
    check_tables(tmp_path, expected)


def test_written_sidecars_have_the_documented_names_and_read_back(tmp_path: Path) -> None:
    expected = contents()
    by_file = {file: sources(tensors) for file, tensors in expected.items()}
    sidecars.write_talker_sidecars(
        tmp_path,
        by_file["embedding.safetensors"][0],
        by_file["text_embedding.safetensors"][0],
        by_file["text_projection.safetensors"],
    )
    sidecars.write_code_predictor_sidecars(
        tmp_path,
        by_file["codec_embeddings.safetensors"],
        by_file["lm_heads.safetensors"],
        by_file["small_to_mtp_projection.safetensors"],
    )
    assert {file.name: list(load_file(file)) for file in tmp_path.iterdir()} == {
        file: list(tensors) for file, tensors in TABLES.items()
    }
    check_tables(tmp_path, expected)
    assert sidecars.codec_embedding_names(GROUPS) == list(TABLES["codec_embeddings.safetensors"])
    assert sidecars.lm_head_names(GROUPS) == list(TABLES["lm_heads.safetensors"])
    predictor = sidecars.read_code_predictor_sidecars(tmp_path, CODE_PREDICTOR)
    talker = sidecars.read_talker_sidecars(tmp_path, TALKER)
    for table in (predictor.codec_embeddings, predictor.lm_heads, talker.text_embedding):
        assert isinstance(table.base, np.memmap)


def test_a_model_without_projection_writes_no_projection_file(tmp_path: Path) -> None:
    found = contents()
    embeddings, heads = sources(found["codec_embeddings.safetensors"]), sources(found["lm_heads.safetensors"])
    sidecars.write_code_predictor_sidecars(tmp_path, embeddings, heads, [])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["codec_embeddings.safetensors", "lm_heads.safetensors"]


def test_projection_names_of_other_exporters_are_understood(tmp_path: Path) -> None:
    expected = contents()
    save(tmp_path, expected)
    renamed = {f"text_projection.{name}": array for name, array in expected["text_projection.safetensors"].items()}
    save_file(renamed, tmp_path / "text_projection.safetensors")
    check_tables(tmp_path, expected)


INNER = 16  # width between the two layers of a projection of Qwen3-Omni: the Talker's intermediate size


def omni_contents(dtype: DTypeLike = np.float32) -> Contents:
    """The files of a Talker of Qwen3-Omni, and the Thinker's one file under the name ``thinker``."""
    projection = {
        "linear_fc1.weight": (INNER, TEXT_WIDTH),
        "linear_fc1.bias": (INNER,),
        "linear_fc2.weight": (TALKER_WIDTH, INNER),
        "linear_fc2.bias": (TALKER_WIDTH,),
    }
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "embedding.safetensors": {"embedding": (CODEC_VOCAB, TALKER_WIDTH)},
        "text_projection.safetensors": projection,
        "hidden_projection.safetensors": projection,
        "thinker": {"embedding": (TEXT_VOCAB, TEXT_WIDTH)},
    }
    return {
        file: {name: RNG.normal(size=shape).astype(dtype) for name, shape in tensors.items()}
        for file, tensors in shapes.items()
    }


def save_omni(directory: Path, found: Contents) -> tuple[Path, Path]:
    """Directories of the Thinker and of the Talker."""
    thinker, talker = directory / "thinker", directory / "talker"
    thinker.mkdir()
    talker.mkdir()
    save(talker, {file: tensors for file, tensors in found.items() if file != "thinker"})
    save_file(found["thinker"], thinker / "embedding.safetensors")
    return thinker, talker


def check_omni_tables(thinker: Path, talker: Path, expected: Contents) -> None:
    table = sidecars.read_thinker_sidecars(thinker, THINKER)
    tables = sidecars.read_omni_talker_sidecars(talker, OMNI_TALKER, table)
    projection = expected["text_projection.safetensors"]
    pairs = [
        (table, expected["thinker"]["embedding"]),
        (tables.text_embedding, expected["thinker"]["embedding"]),
        (tables.codec_embedding, expected["embedding.safetensors"]["embedding"]),
        (tables.fc1_weight, projection["linear_fc1.weight"]),
        (tables.fc1_bias, projection["linear_fc1.bias"]),
        (tables.fc2_weight, projection["linear_fc2.weight"]),
        (tables.fc2_bias, projection["linear_fc2.bias"]),
    ]
    for found, wanted in pairs:
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, wanted.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_talker_of_qwen3_omni_embeds_text_with_the_thinkers_table(tmp_path: Path, dtype: type) -> None:
    expected = omni_contents(dtype)
    check_omni_tables(*save_omni(tmp_path, expected), expected)


def test_written_sidecars_of_qwen3_omni_have_the_documented_names_and_read_back(tmp_path: Path) -> None:
    expected = omni_contents()
    by_file = {file: sources(tensors) for file, tensors in expected.items()}
    thinker, talker = tmp_path / "thinker", tmp_path / "talker"
    thinker.mkdir()
    talker.mkdir()
    sidecars.write_thinker_sidecars(thinker, by_file["thinker"][0])
    sidecars.write_omni_talker_sidecars(
        talker,
        by_file["embedding.safetensors"][0],
        by_file["text_projection.safetensors"],
        by_file["hidden_projection.safetensors"],
    )
    assert {file.name for file in thinker.iterdir()} == set(sidecars.THINKER_SIDECARS)
    assert {file.name for file in talker.iterdir()} == set(sidecars.OMNI_TALKER_SIDECARS)
    check_omni_tables(thinker, talker, expected)


@pytest.mark.parametrize("file", sidecars.OMNI_TALKER_SIDECARS)
def test_a_missing_sidecar_of_qwen3_omni_is_named(tmp_path: Path, file: str) -> None:
    expected = omni_contents()
    _, talker = save_omni(tmp_path, expected)
    (talker / file).unlink()
    with pytest.raises(EngineError, match=f"{file}: the file does not exist; export it again"):
        sidecars.read_omni_talker_sidecars(talker, OMNI_TALKER, expected["thinker"]["embedding"])


def test_a_thinker_of_another_width_than_its_talker_was_made_for_is_refused(tmp_path: Path) -> None:
    _, talker = save_omni(tmp_path, omni_contents())
    message = r"talker/config\.json: thinker_hidden_size is 10, but the Thinker's rows have 9 values; build all"
    with pytest.raises(EngineError, match=message):
        sidecars.read_omni_talker_sidecars(talker, OMNI_TALKER, np.zeros((TEXT_VOCAB, 9), np.float32))


@pytest.mark.parametrize("file", ["text_projection", "hidden_projection"])
def test_a_projection_of_the_wrong_shape_is_named(tmp_path: Path, file: str) -> None:
    expected = omni_contents()
    expected[f"{file}.safetensors"]["linear_fc2.weight"] = np.ones((TALKER_WIDTH, INNER + 1), np.float32)
    _, talker = save_omni(tmp_path, expected)
    with pytest.raises(EngineError, match=rf"{file}\.safetensors: tensor 'linear_fc2\.weight' has shape \[12, 17\]"):
        sidecars.read_omni_talker_sidecars(talker, OMNI_TALKER, expected["thinker"]["embedding"])


def test_a_thinkers_table_of_another_vocabulary_is_named(tmp_path: Path) -> None:
    thinker, _ = save_omni(tmp_path, omni_contents())
    config = replace(THINKER, decoder=dimensions(TEXT_WIDTH, TEXT_VOCAB + 1))
    with pytest.raises(EngineError, match=r"tensor 'embedding' has shape \[9, 10\], config.json asks for \[10, 10\]"):
        sidecars.read_thinker_sidecars(thinker, config)


F32 = np.float32
FAULTS: list[tuple[str, str, np.ndarray | None, str]] = [
    ("embedding.safetensors", "embedding", None, "holds 0 tensors, expected exactly 1"),
    (
        "embedding.safetensors",
        "embedding",
        np.ones((CODEC_VOCAB, 3), F32),
        "tensor 'embedding' has shape",
    ),
    (
        "text_embedding.safetensors",
        "second",
        np.ones(1, F32),
        "holds 2 tensors, expected exactly 1",
    ),
    (
        "text_embedding.safetensors",
        "text_embedding",
        np.ones(TEXT_VOCAB, F32),
        "tensor 'text_embedding' has shape",
    ),
    (
        "text_projection.safetensors",
        "linear_fc2.bias",
        None,
        "holds 3 tensors, expected exactly 4",
    ),
    (
        "text_projection.safetensors",
        "linear_fc1.bias",
        np.ones((), F32),
        "tensor 'linear_fc1.weight' has shape",
    ),
    (
        "text_projection.safetensors",
        "linear_fc1.bias",
        np.ones((TEXT_WIDTH, 1), F32),
        "tensor 'linear_fc1.bias' has shape",
    ),
    (
        "codec_embeddings.safetensors",
        "embedding_1",
        None,
        "tensor 'embedding_1' is missing",
    ),
    (
        "codec_embeddings.safetensors",
        "embedding_3",
        np.ones((CODEBOOK, TALKER_WIDTH), F32),
        "holds 4 tensors, expected exactly 3",
    ),
    (
        "codec_embeddings.safetensors",
        "embedding_2",
        np.ones((CODEBOOK, TALKER_WIDTH), np.int32),
        "tensor 'embedding_2' has type I32",
    ),
    ("lm_heads.safetensors", "lm_head_0.weight", None, "tensor 'lm_head_0.weight' is missing"),
    (
        "lm_heads.safetensors",
        "lm_head_2.weight",
        np.ones((CODEBOOK, WIDTH + 1), F32),
        "tensor 'lm_head_2.weight' has shape",
    ),
]


def read_all(directory: Path) -> None:
    sidecars.read_talker_sidecars(directory, TALKER)
    sidecars.read_code_predictor_sidecars(directory, CODE_PREDICTOR)


@pytest.mark.parametrize(("file", "name", "replacement", "message"), FAULTS)
def test_a_damaged_sidecar_is_named_with_file_and_tensor(
    tmp_path: Path, file: str, name: str, replacement: np.ndarray | None, message: str
) -> None:
    found = contents()
    if replacement is None:
        del found[file][name]
    else:
        found[file][name] = replacement
    save(tmp_path, found)
    with pytest.raises(EngineError) as caught:
        read_all(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/{file}: {message}")
    assert "cpspec-export" in str(caught.value) or "expected one of" in str(caught.value)


@pytest.mark.parametrize("file", [*sidecars.TALKER_SIDECARS, *sidecars.CODE_PREDICTOR_SIDECARS])
def test_a_missing_sidecar_is_named(tmp_path: Path, file: str) -> None:
    save(tmp_path, contents())
    (tmp_path / file).unlink()
    with pytest.raises(EngineError, match=f"{file}: the file does not exist; export it again"):
        read_all(tmp_path)


def test_a_config_with_fewer_than_two_code_groups_is_refused(tmp_path: Path) -> None:
    save(tmp_path, contents())
    with pytest.raises(EngineError, match=r"config\.json: field 'num_code_groups' is 1"):
        sidecars.read_code_predictor_sidecars(tmp_path, replace(CODE_PREDICTOR, num_code_groups=1))
