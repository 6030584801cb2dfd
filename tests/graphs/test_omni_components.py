"""A checkpoint as transformers saves it becomes four directories, and their graphs give what PyTorch gives."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from safetensors.numpy import load_file, save_file

from cpspec_trt.checkpoint.reader import open_checkpoint
from cpspec_trt.errors import CheckpointError, UsageError
from cpspec_trt.files.engine_config import (
    CodePredictorConfig,
    OmniCode2WavConfig,
    OmniTalkerConfig,
    ThinkerConfig,
    read_component_config,
    read_config_of,
)
from cpspec_trt.files.sidecars import read_code_predictor_sidecars, read_omni_talker_sidecars, read_thinker_sidecars
from cpspec_trt.graphs.export import export_checkpoint
from tests.checkpoint.changes import OMNI, PRETRAINED, FieldPath, Json, changed, legacy
from tests.graphs import decoding
from tests.graphs.decoder_runs import Decoder

GRAPH = {"model.onnx", "model.onnx.data", "config.json"}
FILES = {
    "thinker": {
        *GRAPH, "embedding.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
        "generation_config.json",
    },
    "talker": {*GRAPH, "embedding.safetensors", "text_projection.safetensors", "hidden_projection.safetensors"},
    "code_predictor": {*GRAPH, "codec_embeddings.safetensors", "lm_heads.safetensors"},
    "code2wav": GRAPH,
}  # fmt: skip
TOLERANCE = 2e-5
PROMPT = 11  # rows fed at once, the others one by one


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("omni")
    export_checkpoint(PRETRAINED, directory)
    return directory


@pytest.fixture(scope="module")
def expected() -> Mapping[str, np.ndarray]:
    with np.load(PRETRAINED / "expected.npz") as stored:
        return dict(stored)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PRETRAINED, tmp_path / "checkpoint"))


def with_config(checkpoint: Path, config: Json) -> Path:
    (checkpoint / "config.json").write_text(json.dumps(config))
    return checkpoint


def contents(directory: Path) -> dict[str, bytes]:
    return {file.relative_to(directory).as_posix(): file.read_bytes() for file in directory.rglob("*.*")}


def opened(directory: Path, config: Any, batch: int = 2, capacity: int = 32) -> Decoder:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    found = ort.InferenceSession(directory / "model.onnx", options, providers=["CPUExecutionProvider"])
    return Decoder(found, config.decoder, batch, capacity)


def run_in_steps(decoder: Decoder, rows: np.ndarray) -> list[dict[str, np.ndarray]]:
    """The first rows in one pass, the others one by one."""
    batch, count, _ = rows.shape
    results = [decoder.run(rows[:, :PROMPT], np.full(batch, PROMPT - 1))]
    return results + [decoder.run(rows[:, [row]], np.zeros(batch, np.int64)) for row in range(PROMPT, count)]


def test_a_checkpoint_becomes_four_complete_directories(exported: Path) -> None:
    assert {path.name: {file.name for file in path.iterdir()} for path in exported.iterdir()} == FILES
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        assert (exported / "thinker" / name).read_bytes() == (PRETRAINED / name).read_bytes()
    configs = [read_component_config(exported / component) for component in FILES]
    assert [config.model for config in configs] == [
        "qwen3_omni_moe_thinker",
        "qwen3_omni_moe_talker",
        "qwen3_omni_moe_talker_code_predictor",
        "qwen3_omni_moe_code2wav",
    ]
    assert {config.checkpoint_fingerprint for config in configs} == {open_checkpoint(PRETRAINED).fingerprint()}


def test_the_thinker_gives_the_logits_and_the_accepted_rows_of_pytorch(
    exported: Path, expected: Mapping[str, np.ndarray]
) -> None:
    config = read_config_of(exported / "thinker", ThinkerConfig)
    table = read_thinker_sidecars(exported / "thinker", config)
    results = run_in_steps(opened(exported / "thinker", config), np.asarray(table[expected["text_ids"]]))
    logits = np.stack([found["logits"] for found in results], axis=1)
    accepted = np.concatenate([found["accept_hidden"] for found in results], axis=1)
    np.testing.assert_allclose(logits, expected["thinker_logits"][:, PROMPT - 1 :], atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(accepted, expected["accept_hidden"], atol=TOLERANCE, rtol=0)


def test_the_talker_gives_the_logits_and_hidden_rows_of_pytorch(
    exported: Path, expected: Mapping[str, np.ndarray]
) -> None:
    config = read_config_of(exported / "talker", OmniTalkerConfig)
    results = run_in_steps(opened(exported / "talker", config), expected["talker_rows"])
    for name in ("logits", "hidden_states"):
        found = np.stack([outputs[name] for outputs in results], axis=1)
        wanted = expected["talker_logits" if name == "logits" else "talker_hidden"][:, PROMPT - 1 :]
        np.testing.assert_allclose(found, wanted, atol=TOLERANCE, rtol=0)


def test_the_code_predictor_gives_the_hidden_rows_of_pytorch(
    exported: Path, expected: Mapping[str, np.ndarray]
) -> None:
    config = read_config_of(exported / "code_predictor", CodePredictorConfig)
    frame = expected["talker_rows"][:, : config.num_code_groups]
    found = opened(exported / "code_predictor", config).hidden_rows(frame, [2, 1, 1])
    np.testing.assert_allclose(found, expected["frame_hidden"], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("chunks", [[25], [1] * 25, [7, 2, 16]], ids=str)
def test_code2wav_gives_the_waveform_of_pytorch(
    exported: Path, expected: Mapping[str, np.ndarray], chunks: list[int]
) -> None:
    config = read_config_of(exported / "code2wav", OmniCode2WavConfig)
    decoder = decoding.Decoder(config, decoding.open_session(exported / "code2wav" / "model.onnx"))
    found = decoder.decode(expected["codes"], chunks)
    assert found.shape == (1, 25 * 48 - 15)
    np.testing.assert_allclose(found, expected["waveform"][:, 0], atol=TOLERANCE, rtol=0)
    assert np.abs(expected["waveform"]).max() < 1  # nothing was clipped


def test_text_rows_are_the_projected_rows_of_the_thinkers_table(
    exported: Path, expected: Mapping[str, np.ndarray]
) -> None:
    table = read_thinker_sidecars(exported / "thinker", read_config_of(exported / "thinker", ThinkerConfig))
    config = read_config_of(exported / "talker", OmniTalkerConfig)
    tables = read_omni_talker_sidecars(exported / "talker", config, table)
    hidden = load_file(exported / "talker" / "hidden_projection.safetensors")
    projections = {
        "text_rows": (tables.fc1_weight, tables.fc1_bias, tables.fc2_weight, tables.fc2_bias),
        "hidden_rows": tuple(hidden[f"linear_{part}"] for part in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")),
    }
    for name, (fc1_weight, fc1_bias, fc2_weight, fc2_bias) in projections.items():
        inner = tables.text_embedding[expected["text_ids"][0]] @ fc1_weight.T + fc1_bias
        found = inner / (1 + np.exp(-inner)) @ fc2_weight.T + fc2_bias
        np.testing.assert_allclose(found, expected[name], atol=TOLERANCE, rtol=0)


def test_tables_are_those_of_the_checkpoint(exported: Path) -> None:
    stored = {name: array.astype(np.float32) for name, array in load_file(PRETRAINED / "model.safetensors").items()}
    codec = load_file(exported / "talker" / "embedding.safetensors")["embedding"]
    np.testing.assert_array_equal(codec, stored["talker.model.codec_embedding.weight"])
    config = read_config_of(exported / "code_predictor", CodePredictorConfig)
    predictor = read_code_predictor_sidecars(exported / "code_predictor", config)
    for depth in range(3):
        name = f"talker.code_predictor.model.codec_embedding.{depth}.weight"
        np.testing.assert_array_equal(predictor.codec_embeddings[depth], stored[name])
        np.testing.assert_array_equal(
            predictor.lm_heads[depth], stored[f"talker.code_predictor.lm_head.{depth}.weight"]
        )


def test_the_words_of_published_checkpoints_give_the_same_export(copied: Path, exported: Path, tmp_path: Path) -> None:
    export_checkpoint(with_config(copied, legacy(OMNI)), tmp_path / "onnx")
    found, wanted = contents(tmp_path / "onnx"), contents(exported)
    assert found.keys() == wanted.keys()
    for name in wanted:
        if not name.endswith("/config.json"):
            assert found[name] == wanted[name]
    fingerprint = open_checkpoint(copied).fingerprint().encode()
    for component in FILES:  # the checkpoint's own configuration is part of the fingerprint
        config = wanted[f"{component}/config.json"].replace(
            open_checkpoint(PRETRAINED).fingerprint().encode(), fingerprint
        )
        assert found[f"{component}/config.json"] == config


def silenced(checkpoint: Path) -> Path:
    return with_config(checkpoint, changed(OMNI, ("enable_audio_output",), False))


def test_a_checkpoint_without_audio_output_exports_the_thinker_alone(copied: Path, tmp_path: Path) -> None:
    tensors = load_file(copied / "model.safetensors")
    save_file({n: a for n, a in tensors.items() if n.startswith("thinker.")}, copied / "model.safetensors")
    assert list(export_checkpoint(silenced(copied), tmp_path / "onnx")) == ["thinker"]
    assert [path.name for path in (tmp_path / "onnx").iterdir()] == ["thinker"]
    config = read_config_of(tmp_path / "onnx" / "thinker", ThinkerConfig)
    decoder = opened(tmp_path / "onnx" / "thinker", config, batch=1)
    rows = np.ones((1, 3, config.decoder.hidden_size), np.float32)
    np.testing.assert_array_equal(decoder.run(rows, np.array([2]))["accept_hidden"], rows)


@pytest.mark.parametrize(
    ("change", "component", "known"),
    [
        (silenced, "talker", "choose from thinker$"),
        (lambda checkpoint: checkpoint, "llm", "choose from thinker, talker, code_predictor, code2wav$"),
    ],
)
def test_a_component_the_checkpoint_lacks_is_refused(
    copied: Path, tmp_path: Path, change: Callable[[Path], Path], component: str, known: str
) -> None:
    with pytest.raises(UsageError, match=rf"component '{component}' is .*; {known}"):
        export_checkpoint(change(copied), tmp_path / "onnx", [component])


@pytest.mark.parametrize(
    "name",
    [
        "thinker.model.embed_tokens.weight",
        "thinker.lm_head.weight",
        "thinker.model.layers.0.mlp.experts.4.down_proj.weight",
        "thinker.model.layers.1.mlp.gate_proj.weight",
        "talker.model.codec_embedding.weight",
        "talker.codec_head.weight",
        "talker.model.layers.1.mlp.shared_expert_gate.weight",
        "talker.text_projection.linear_fc1.bias",
        "talker.hidden_projection.linear_fc2.weight",
        "talker.code_predictor.lm_head.2.weight",
        "talker.code_predictor.model.codec_embedding.0.weight",
        "code2wav.code_embedding.weight",
    ],
)
@pytest.mark.parametrize("fault", ["missing", "wrong shape"])
def test_a_faulty_tensor_is_named_before_anything_is_written(
    copied: Path, tmp_path: Path, name: str, fault: str
) -> None:
    tensors = load_file(copied / "model.safetensors")
    if fault == "missing":
        del tensors[name]
    else:
        tensors[name] = np.concatenate([tensors[name], tensors[name]])
    save_file(tensors, copied / "model.safetensors")
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: tensor '{name}' (is missing|has shape)"):
        export_checkpoint(copied, tmp_path / "onnx", ["thinker"])
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("code2wav_config", "num_quantizers"), 8, r"num_quantizers' is 8, but the Talker has 4"),
        (("code2wav_config", "codebook_size"), 16, r"codebook_size' is 16, but the CodePredictor produces 32"),
        (("talker_config", "thinker_hidden_size"), 64, r"thinker_hidden_size' is 64, but thinker_config"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(
    copied: Path, tmp_path: Path, path: FieldPath, value: int, message: str
) -> None:
    with pytest.raises(CheckpointError, match=rf"config\.json: field '{path[0]}\.{message}"):
        export_checkpoint(with_config(copied, changed(OMNI, path, value)), tmp_path / "onnx", ["thinker"])
    assert not (tmp_path / "onnx").exists()
