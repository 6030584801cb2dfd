"""The whole export: directories, configs, sidecars, refusals that leave nothing behind, and its memory."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file

from cpspec_trt.checkpoint.reader import open_checkpoint
from cpspec_trt.errors import CheckpointError, UnsupportedError, UsageError
from cpspec_trt.files.engine_config import CodePredictorConfig, TalkerConfig, read_component_config, read_config_of
from cpspec_trt.files.sidecars import read_code_predictor_sidecars, read_talker_sidecars
from cpspec_trt.graphs.export import DIRECTORIES, export_checkpoint
from cpspec_trt.synthetic.spec import SPECS, TtsSpec
from cpspec_trt.synthetic.tts import write_tts_checkpoint
from tests.checkpoint.changes import OMNI, PRETRAINED, changed

ALL = tuple(DIRECTORIES)
DEMO_VOICE = Path(__file__).parents[2] / "assets" / "demo-voice" / "checkpoint"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("export") / "tiny"
    write_tts_checkpoint(directory, SPECS["tiny"], seed=5)
    return directory


@pytest.fixture
def copied(checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint, tmp_path / "checkpoint"))


def names_in(directory: Path) -> set[str]:
    return {file.relative_to(directory).as_posix() for file in directory.rglob("*") if file.is_file()}


def test_the_demo_voice_becomes_three_complete_directories(tmp_path: Path) -> None:
    written = export_checkpoint(DEMO_VOICE, tmp_path / "onnx", ALL)
    assert written == {name: tmp_path / "onnx" / inside for name, inside in DIRECTORIES.items()}
    graph = {"model.onnx", "model.onnx.data", "config.json"}
    tokenizer = {
        "tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json",
        "added_tokens.json", "chat_template.jinja", "generation_config.json", "vocabulary.txt",
    }  # fmt: skip
    tables = {"embedding.safetensors", "text_embedding.safetensors", "text_projection.safetensors"}
    heads = {"codec_embeddings.safetensors", "lm_heads.safetensors", "small_to_mtp_projection.safetensors"}
    assert names_in(tmp_path / "onnx") == {
        *(f"llm/{name}" for name in graph | tokenizer | tables),
        *(f"code_predictor/{name}" for name in graph | heads),
        *(f"code2wav/{name}" for name in graph),
    }
    for name in tokenizer:
        assert (tmp_path / "onnx" / "llm" / name).read_bytes() == (DEMO_VOICE / name).read_bytes()


def test_configs_name_their_models_and_share_the_fingerprint_of_the_checkpoint(
    checkpoint: Path, tmp_path: Path
) -> None:
    written = export_checkpoint(checkpoint, tmp_path, ALL)
    configs = [read_component_config(directory) for directory in written.values()]
    models = ["qwen3_tts_talker", "qwen3_tts_code_predictor", "qwen3_tts_code2wav"]
    assert [config.model for config in configs] == models
    assert {config.checkpoint_fingerprint for config in configs} == {open_checkpoint(checkpoint).fingerprint()}


@pytest.mark.parametrize("spec", ["tiny", "tiny_square", "tiny_design"])
def test_sidecars_hold_the_tables_of_the_checkpoint(tmp_path: Path, spec: str) -> None:
    write_tts_checkpoint(tmp_path / "checkpoint", SPECS[spec], seed=2)
    written = export_checkpoint(tmp_path / "checkpoint", tmp_path / "onnx", ["talker", "code_predictor"])
    stored = {
        name: array.astype(np.float32)
        for file in (tmp_path / "checkpoint").glob("*.safetensors")
        for name, array in load_file(file).items()
    }
    talker = read_talker_sidecars(written["talker"], read_config_of(written["talker"], TalkerConfig))
    config = read_config_of(written["code_predictor"], CodePredictorConfig)
    predictor = read_code_predictor_sidecars(written["code_predictor"], config)
    np.testing.assert_array_equal(talker.codec_embedding, stored["talker.model.codec_embedding.weight"])
    np.testing.assert_array_equal(talker.text_embedding, stored["talker.model.text_embedding.weight"])
    np.testing.assert_array_equal(talker.fc1_weight, stored["talker.text_projection.linear_fc1.weight"])
    np.testing.assert_array_equal(talker.fc1_bias, stored["talker.text_projection.linear_fc1.bias"])
    np.testing.assert_array_equal(talker.fc2_weight, stored["talker.text_projection.linear_fc2.weight"])
    np.testing.assert_array_equal(talker.fc2_bias, stored["talker.text_projection.linear_fc2.bias"])
    for depth in range(15):
        embedding = stored[f"talker.code_predictor.model.codec_embedding.{depth}.weight"]
        np.testing.assert_array_equal(predictor.codec_embeddings[depth], embedding)
        np.testing.assert_array_equal(
            predictor.lm_heads[depth], stored[f"talker.code_predictor.lm_head.{depth}.weight"]
        )
    projection = written["code_predictor"] / "small_to_mtp_projection.safetensors"
    assert projection.is_file() == (spec != "tiny_square")
    if projection.is_file():
        prefix = "talker.code_predictor.small_to_mtp_projection"
        assert {name: array.shape for name, array in load_file(projection).items()} == {
            "weight": (48, 64),
            "bias": (48,),
        }
        np.testing.assert_array_equal(load_file(projection)["weight"], stored[f"{prefix}.weight"])


def test_weights_of_a_graph_are_the_tensors_of_the_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    written = export_checkpoint(checkpoint, tmp_path, ["talker"])
    stored = load_file(checkpoint / "model.safetensors")
    found = {t.name: numpy_helper.to_array(t) for t in onnx.load(written["talker"] / "model.onnx").graph.initializer}
    name = "talker.model.layers.1.mlp.down_proj.weight"
    np.testing.assert_array_equal(found[name], stored[name].T)
    np.testing.assert_array_equal(found["talker.model.norm.weight"], stored["talker.model.norm.weight"])


def test_only_selected_components_are_written(checkpoint: Path, tmp_path: Path) -> None:
    export_checkpoint(checkpoint, tmp_path, ["code_predictor"])
    assert [file.name for file in tmp_path.iterdir()] == ["code_predictor"]


def test_a_second_export_replaces_the_first_and_keeps_files_of_the_user(checkpoint: Path, tmp_path: Path) -> None:
    directory = tmp_path / "code_predictor"
    export_checkpoint(checkpoint, tmp_path, ["code_predictor"])
    first = names_in(directory)
    for name in ("text_embedding.safetensors", "vocabulary.txt", "thesis.tex"):
        (directory / name).write_text("old")
    export_checkpoint(checkpoint, tmp_path, ["code_predictor"])
    assert names_in(directory) == first | {"thesis.tex"}
    assert [file.name for file in tmp_path.iterdir()] == ["code_predictor"]


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (("model.onnx", "config.json", "years/of/work.tex"), r"llm: holds directories \(years\)"),
        (("llm.onnx", "config.json", "engine_manifest.json"), r"llm: holds an engine \(engine_manifest.json\)"),
        (("model.safetensors", "config.json"), "llm: has a config.json but no model.onnx"),
        (("tokenizer_config.json",), "llm/tokenizer_config.json: the export has a file of this name too"),
    ],
)
def test_what_no_export_wrote_is_never_lost(
    checkpoint: Path, tmp_path: Path, there: tuple[str, ...], message: str
) -> None:
    for name in there:
        (tmp_path / "llm" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "llm" / name).write_text(name)
    with pytest.raises(UsageError, match=message):
        export_checkpoint(checkpoint, tmp_path, ALL)
    assert names_in(tmp_path) == {f"llm/{name}" for name in there}
    assert all((tmp_path / "llm" / name).read_text() == name for name in there)


def test_a_file_in_the_way_is_named(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "onnx").write_text("")
    with pytest.raises(UsageError, match=r"onnx: is a file, so .*llm cannot be made"):
        export_checkpoint(checkpoint, tmp_path / "onnx", ALL)


@pytest.mark.parametrize(("components", "message"), [(["vocoder"], "component 'vocoder' is unknown"), ([], "no comp")])
def test_an_unknown_or_empty_selection_is_refused(
    checkpoint: Path, tmp_path: Path, components: list[str], message: str
) -> None:
    with pytest.raises(UsageError, match=f"{message}.*choose from talker, code_predictor, code2wav"):
        export_checkpoint(checkpoint, tmp_path, components)


@pytest.mark.parametrize(
    "name",
    [
        "talker.model.layers.1.self_attn.k_norm.weight",
        "talker.codec_head.weight",
        "talker.model.text_embedding.weight",
        "talker.text_projection.linear_fc2.bias",
        "talker.code_predictor.model.layers.0.mlp.up_proj.weight",
        "talker.code_predictor.model.codec_embedding.14.weight",
        "talker.code_predictor.lm_head.14.weight",
        "talker.code_predictor.small_to_mtp_projection.bias",
    ],
)
@pytest.mark.parametrize("fault", ["missing", "wrong shape", "wrong type"])
def test_a_faulty_tensor_is_named_before_anything_is_written(
    copied: Path, tmp_path: Path, name: str, fault: str
) -> None:
    tensors = load_file(copied / "model.safetensors")
    if fault == "missing":
        del tensors[name]
    elif fault == "wrong shape":
        tensors[name] = np.concatenate([tensors[name], tensors[name]])
    else:
        tensors[name] = tensors[name].astype(np.int8)
    save_file(tensors, copied / "model.safetensors")
    with pytest.raises(
        CheckpointError, match=rf"model\.safetensors: tensor '{name}' (is missing|has shape|has type I8)"
    ):
        export_checkpoint(copied, tmp_path / "onnx", ALL)
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize(
    ("file", "sections", "stem", "count"),
    [
        ("", ("talker_config",), "talker.model.layers", 2),
        ("", ("talker_config", "code_predictor_config"), "talker.code_predictor.model.layers", 2),
        ("speech_tokenizer", ("decoder_config",), "decoder.pre_transformer.layers", 2),
    ],
)
def test_layers_that_the_config_does_not_know_are_refused(
    copied: Path, tmp_path: Path, file: str, sections: tuple[str, ...], stem: str, count: int
) -> None:
    path = copied / file / "config.json"
    config = section = json.loads(path.read_text())
    for name in sections:
        section = section[name]
    assert section["num_hidden_layers"] == count
    section["num_hidden_layers"] = count - 1
    section.pop("layer_types", None)
    path.write_text(json.dumps(config))
    message = rf"model.safetensors: holds {stem}.{count - 1}, but config.json asks for {count - 1} of them"
    with pytest.raises(CheckpointError, match=message):
        export_checkpoint(copied, tmp_path / "onnx", ALL)
    assert not (tmp_path / "onnx").exists()


def test_fewer_code_groups_than_heads_are_refused(copied: Path, tmp_path: Path) -> None:
    config, speech = (json.loads((copied / inside / "config.json").read_text()) for inside in ("", "speech_tokenizer"))
    config["talker_config"]["num_code_groups"] = 15
    config["talker_config"]["code_predictor_config"]["num_code_groups"] = 15
    speech["decoder_config"]["num_quantizers"] = 15
    (copied / "config.json").write_text(json.dumps(config))
    (copied / "speech_tokenizer" / "config.json").write_text(json.dumps(speech))
    with pytest.raises(CheckpointError, match=r"codec_embedding.14, but config.json asks for 14"):
        export_checkpoint(copied, tmp_path / "onnx", ALL)


def test_layers_of_a_thinker_are_counted_too(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(PRETRAINED, tmp_path / "checkpoint"))
    config = changed(OMNI, ("thinker_config", "text_config", "num_hidden_layers"), 2)
    config["talker_config"]["accept_hidden_layer"] = 1
    text = config["thinker_config"]["text_config"]
    text["mlp_only_layers"] = [layer for layer in text["mlp_only_layers"] if layer < 2]
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"holds thinker.model.layers.2, but config.json asks for 2"):
        export_checkpoint(copied, tmp_path / "onnx")


def test_a_faulty_codec_tensor_is_named(copied: Path, tmp_path: Path) -> None:
    file = copied / "speech_tokenizer" / "model.safetensors"
    tensors = load_file(file)
    del tensors["decoder.pre_conv.conv.bias"]
    save_file(tensors, file)
    with pytest.raises(
        CheckpointError, match=r"speech_tokenizer/model\.safetensors: tensor 'decoder\.pre_conv\.conv\.b"
    ):
        export_checkpoint(copied, tmp_path / "onnx", ["talker"])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("num_quantizers", 8, "is 8, but the Talker has 16"), ("codebook_size", 32, "is 32, but the CodePredictor prod")],
)
def test_a_codec_that_does_not_fit_the_talker_is_refused(
    copied: Path, tmp_path: Path, field: str, value: int, message: str
) -> None:
    path = copied / "speech_tokenizer" / "config.json"
    config = json.loads(path.read_text())
    config["decoder_config"][field] = value
    path.write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=rf"'decoder_config\.{field}' {message}"):
        export_checkpoint(copied, tmp_path / "onnx", ALL)


def test_a_base_checkpoint_is_refused_by_name(copied: Path, tmp_path: Path) -> None:
    config = json.loads((copied / "config.json").read_text()) | {"tts_model_type": "base"}
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedError, match="tts_model_type is 'base': voice cloning is not supported"):
        export_checkpoint(copied, tmp_path / "onnx", ALL)


def test_a_bfloat16_checkpoint_gives_the_graph_of_its_float32_values(copied: Path, tmp_path: Path) -> None:
    rounded = {n: a.astype(ml_dtypes.bfloat16) for n, a in load_file(copied / "model.safetensors").items()}
    save_file(rounded, copied / "model.safetensors")
    half = export_checkpoint(copied, tmp_path / "bf16", ["talker"])["talker"]
    save_file({n: a.astype(np.float32) for n, a in rounded.items()}, copied / "model.safetensors")
    full = export_checkpoint(copied, tmp_path / "f32", ["talker"])["talker"]
    for name in ("model.onnx", "model.onnx.data", "embedding.safetensors", "text_embedding.safetensors"):
        assert (half / name).read_bytes() == (full / name).read_bytes()


# A child's ru_maxrss starts at its parent's peak on Linux, so the peak of its own memory is read instead.
MEASURE = """
import sys
from pathlib import Path
from cpspec_trt.checkpoint.reader import open_checkpoint
from cpspec_trt.graphs.export import DIRECTORIES, export_checkpoint

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

before = peak()
if sys.argv[3] == "export":
    export_checkpoint(Path(sys.argv[1]), Path(sys.argv[2]), tuple(DIRECTORIES))
else:
    tensors = open_checkpoint(Path(sys.argv[1])).tensors
    held = [tensors.read(name) for name in tensors.entries]
print(peak() - before)
"""


def peak_growth(checkpoint: Path, onnx_dir: Path, what: str) -> int:
    """Bytes by which the peak resident memory of a fresh process grows."""
    command = [sys.executable, "-c", MEASURE, str(checkpoint), str(onnx_dir), what]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def sharded(
    directory: Path, layers: int, text_rows: int, text_width: int, shard_bytes: int, inner: int | None = None
) -> TtsSpec:
    """A sharded bfloat16 checkpoint with the published widths and heads but few layers."""
    published = SPECS["published_0b6"]
    talker = replace(published.talker, num_hidden_layers=layers)
    spec = replace(
        SPECS["tiny_square"],
        talker=talker if inner is None else replace(talker, intermediate_size=inner),
        code_predictor=replace(published.code_predictor, num_hidden_layers=layers),
        mrope_section=published.mrope_section,
        text_vocab_size=text_rows,
        text_hidden_size=text_width,
        shard_bytes=shard_bytes,
    )
    write_tts_checkpoint(directory, spec, seed=1)
    return spec


def float32_sizes(checkpoint: Path) -> list[int]:
    return [4 * math.prod(entry.shape) for entry in open_checkpoint(checkpoint).tensors.entries.values()]


@pytest.mark.parametrize(
    ("largest", "text_rows", "inner"), [("talker.model.text_emb", 40_000, None), ("mlp.down_proj", 1000, 30_000)]
)
def test_memory_stays_near_the_largest_tensor_be_it_a_table_or_a_matrix_that_is_transposed(
    tmp_path: Path, largest: str, text_rows: int, inner: int | None
) -> None:
    sharded(tmp_path / "checkpoint", 1, text_rows, text_width=256, shard_bytes=60 << 20, inner=inner)
    assert len(list((tmp_path / "checkpoint").glob("model-*.safetensors"))) > 2
    entries = open_checkpoint(tmp_path / "checkpoint").tensors.entries.values()
    assert largest in max(entries, key=lambda entry: (entry.nbytes, "down_proj" in entry.name)).name
    sizes = float32_sizes(tmp_path / "checkpoint")
    bound = max(sizes) + (64 << 20)
    assert sum(sizes) > 2.5 * bound
    assert peak_growth(tmp_path / "checkpoint", tmp_path / "onnx", "export") < bound
    assert peak_growth(tmp_path / "checkpoint", tmp_path / "onnx", "hold everything") > bound  # the control


@pytest.mark.long
def test_memory_stays_below_the_largest_tensor_and_500_mb_with_the_published_text_table(tmp_path: Path) -> None:
    sharded(tmp_path / "checkpoint", layers=8, text_rows=151_936, text_width=2048, shard_bytes=500 << 20)
    sizes = float32_sizes(tmp_path / "checkpoint")
    bound = max(sizes) + 500_000_000
    assert sum(sizes) > 1.4 * bound
    assert peak_growth(tmp_path / "checkpoint", tmp_path / "onnx", "export") < bound
