"""Building engine directories: what is in them, what is kept, and that they are whole at every moment."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from onnx import TensorProto, helper

from cpspec_trt.builder.build import build_checkpoint, build_engine
from cpspec_trt.builder.engine_options import EngineOptions
from cpspec_trt.builder.exported import read_export
from cpspec_trt.builder.profiles import COMPONENTS, BuildLimits, plan
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.errors import CheckpointError, EngineError, UsageError
from cpspec_trt.files.atomic import _exchange
from cpspec_trt.files.manifest import read_manifest
from cpspec_trt.graphs.export import DIRECTORIES
from tests.builder import tiny_exports
from tests.checkpoint.changes import OMNI, PRETRAINED

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "assets" / "demo-voice" / "checkpoint"
LIMITS = BuildLimits(max_input_len=64, max_batch_size=2, max_kv_cache_capacity=128)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_an_engine_directory_holds_engine_manifest_config_and_tables(tmp_path: Path) -> None:
    source = tiny_exports.write_talker(tmp_path / "onnx")
    built = build_engine(source, tmp_path / "talker", LIMITS)
    assert built.directory == tmp_path / "talker"
    tables = [
        "embedding.safetensors", "generation_config.json", "text_embedding.safetensors", "text_projection.safetensors",
        "tokenizer.json", "vocabulary.txt",
    ]  # fmt: skip
    engine = ["config.json", "engine_manifest.json", "llm.onnx", "llm.onnx.data"]
    assert names(tmp_path / "talker") == sorted(tables + engine)
    for name in tables:
        assert (tmp_path / "talker" / name).read_bytes() == (source / name).read_bytes()
    assert (tmp_path / "talker" / "llm.onnx.data").read_bytes() == (source / "model.onnx.data").read_bytes()


def test_the_manifest_says_what_the_engine_is(tmp_path: Path) -> None:
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    build_engine(source, tmp_path / "code_predictor", LIMITS)
    value = json.loads((tmp_path / "code_predictor" / "engine_manifest.json").read_text())
    assert value["format_version"] == 2
    assert (value["backend"], value["backend_version"]) == ("onnxruntime", onnxruntime.__version__)
    assert (value["component"], value["model"]) == ("code_predictor", "qwen3_tts_code_predictor")
    assert (value["checkpoint_fingerprint"], value["precision"]) == ("tiny", "fp32")
    assert value["limits"] == {
        "max_batch_size": 2, "max_input_len": 16, "opt_input_len": 8, "max_kv_cache_capacity": 24, "max_verify_rows": 8,
    }  # fmt: skip
    assert value["profiles"]["generation"]["inputs_embeds"] == {"min": [1, 1, 8], "opt": [2, 1, 8], "max": [2, 8, 8]}
    assert value["profiles"]["context"]["inputs_embeds"] == {"min": [1, 1, 8], "opt": [2, 8, 8], "max": [2, 16, 8]}
    assert value["inputs"][0] == {"name": "inputs_embeds", "dtype": "float32", "shape": [-1, -1, 8]}
    assert value["outputs"][0] == {"name": "hidden_states", "dtype": "float32", "shape": [-1, -1, 6]}
    for file in (*value["files"], *value["sidecars"]):
        path = tmp_path / "code_predictor" / file["name"]
        assert (file["bytes"], file["sha256"]) == (path.stat().st_size, sha256(path))
    assert [file["name"] for file in value["files"]] == ["llm.onnx", "llm.onnx.data"]
    tables = ["codec_embeddings.safetensors", "lm_heads.safetensors"]
    assert [file["name"] for file in value["sidecars"]] == ["config.json", *tables]


def test_the_manifest_that_is_read_back_is_the_plan(tmp_path: Path) -> None:
    source = tiny_exports.write_talker(tmp_path / "onnx")
    built = build_engine(source, tmp_path / "talker", LIMITS)
    exported = read_export(source)
    assert read_manifest(tmp_path / "talker") == built.manifest
    assert built.manifest.profiles == plan(exported.config, exported.inputs, LIMITS).profiles


def test_the_config_is_the_exports_plus_the_builders_sizes(tmp_path: Path) -> None:
    source = tiny_exports.write_talker(tmp_path / "onnx", an_unknown_field=[1, 2])
    build_engine(source, tmp_path / "talker", LIMITS)
    config = json.loads((tmp_path / "talker" / "config.json").read_text())
    assert config.pop("builder_config") == {
        "max_batch_size": 2, "max_input_len": 64, "opt_input_len": 32, "max_kv_cache_capacity": 128,
    }  # fmt: skip
    assert config == json.loads((source / "config.json").read_text())


def test_the_runtime_opens_what_was_built(tmp_path: Path) -> None:
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    build_engine(source, tmp_path / "code_predictor", LIMITS)
    engine = open_engine(tmp_path / "code_predictor", threads=1)
    assert engine.manifest.max_new_positions("generation") == 8


def test_code2wav_goes_into_a_directory_of_its_name(tmp_path: Path) -> None:
    source = tiny_exports.write_code2wav(tmp_path / "onnx")
    assert build_engine(source, tmp_path / "engines", LIMITS).directory == tmp_path / "engines" / "code2wav"
    assert (
        build_engine(source, tmp_path / "engines" / "code2wav", LIMITS).directory == tmp_path / "engines" / "code2wav"
    )
    assert names(tmp_path / "engines") == ["code2wav"]
    assert names(tmp_path / "engines" / "code2wav") == [
        "code2wav.onnx", "code2wav.onnx.data", "config.json", "engine_manifest.json",
    ]  # fmt: skip


def test_a_link_called_code2wav_is_its_directory(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "code2wav").symlink_to("disk", target_is_directory=True)
    source = tiny_exports.write_code2wav(tmp_path / "onnx")
    assert build_engine(source, tmp_path / "code2wav", LIMITS).directory == tmp_path / "code2wav"
    assert "code2wav.onnx" in names(tmp_path / "disk")


def test_a_rebuild_drops_stale_files_and_keeps_those_of_the_user(tmp_path: Path) -> None:
    source, engine = tiny_exports.write_talker(tmp_path / "onnx"), tmp_path / "talker"
    build_engine(source, engine, LIMITS)
    (engine / "voice_map.json").write_text('{"rob": "ryan"}')
    (source / "vocabulary.txt").unlink()
    build_engine(source, engine, LIMITS)
    assert not (engine / "vocabulary.txt").exists()
    assert (engine / "voice_map.json").read_text() == '{"rob": "ryan"}'


def test_a_symbolic_link_to_an_engine_directory_stays_one(tmp_path: Path) -> None:
    source = tiny_exports.write_talker(tmp_path / "onnx")
    (tmp_path / "disk").mkdir()
    (tmp_path / "talker").symlink_to("disk", target_is_directory=True)
    build_engine(source, tmp_path / "talker", LIMITS)
    assert (tmp_path / "talker").is_symlink()
    assert (tmp_path / "disk" / "llm.onnx").is_file()


def test_the_weights_of_a_kept_export_are_never_shared(tmp_path: Path) -> None:
    source = tiny_exports.write_talker(tmp_path / "onnx")
    build_engine(source, tmp_path / "talker", LIMITS)
    for path in (tmp_path / "talker").iterdir():
        assert path.stat().st_nlink == 1


def test_memory_does_not_grow_with_the_weights(tmp_path: Path) -> None:
    source, rows = tiny_exports.write_code_predictor(tmp_path / "onnx"), 1 << 22
    graph = tiny_exports.code_predictor_graph()
    large = TensorProto(name="large", data_type=TensorProto.FLOAT, dims=(tiny_exports.WIDTH, rows))
    large.data_location = TensorProto.EXTERNAL
    size = 4 * tiny_exports.WIDTH * rows
    for key, value in (("location", "model.onnx.data"), ("offset", "4096"), ("length", str(size))):
        large.external_data.add(key=key, value=value)
    graph.initializer.append(large)
    graph.node.append(helper.make_node("MatMul", ["inputs_embeds", "large"], ["unused"]))
    tiny_exports.write_model(source, graph, 0)
    with (source / "model.onnx.data").open("r+b") as stream:
        stream.truncate(4096 + size)
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from cpspec_trt.builder.build import build_engine\n"
        "from cpspec_trt.builder.profiles import BuildLimits\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "build_engine(Path(sys.argv[1]), Path(sys.argv[2]), BuildLimits(), link_weights=True)\n"
        "print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))"
    )
    command = [sys.executable, "-c", code, str(source), str(tmp_path / "engine")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert size == 128 << 20
    assert int(done.stdout) < size // 2


def test_a_failed_build_leaves_the_old_engine_and_nothing_else(tmp_path: Path) -> None:
    engine = tmp_path / "engines" / "talker"
    build_engine(tiny_exports.write_talker(tmp_path / "good"), engine, LIMITS)
    before = {path.name: sha256(path) for path in engine.iterdir()}
    bad = tiny_exports.write_talker(tmp_path / "bad")
    graph = tiny_exports.talker_graph()
    graph.node.append(helper.make_node("NoSuchOperator", ["row"], ["nothing"]))
    tiny_exports.write_model(bad, graph, 0)
    with pytest.raises(EngineError, match="NoSuchOperator"):
        build_engine(bad, engine, LIMITS)
    assert {path.name: sha256(path) for path in engine.iterdir()} == before
    assert names(engine.parent) == ["talker"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=r"file: is a file, so .*file/talker cannot be made"):
        build_engine(tiny_exports.write_talker(tmp_path / "onnx"), tmp_path / "file" / "talker", LIMITS)


def test_a_backend_that_cannot_build_here_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="--backend tensorrt: "):
        build_engine(tmp_path / "absent", tmp_path / "engine", LIMITS, "tensorrt")


def test_an_option_that_the_backend_cannot_honour_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--precision fp16: onnxruntime engines are fp32"):
        build_engine(tmp_path / "absent", tmp_path / "engine", LIMITS, "onnxruntime", EngineOptions(precision="fp16"))


@pytest.fixture(scope="module")
def built_demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    lines: list[str] = []
    root = tmp_path_factory.mktemp("demo") / "engines"
    build_checkpoint(DEMO, root, dict.fromkeys(COMPONENTS, BuildLimits()), progress=lines.append)
    return root, lines


def test_a_checkpoint_becomes_the_engines_of_all_components(built_demo: tuple[Path, list[str]]) -> None:
    root, lines = built_demo
    assert names(root) == ["code2wav", "code_predictor", "talker"]
    manifests = [read_manifest(root / component) for component in DIRECTORIES]
    assert [manifest.component for manifest in manifests] == list(DIRECTORIES)
    assert len({manifest.checkpoint_fingerprint for manifest in manifests}) == 1
    widths = [manifest.profile("generation").inputs for manifest in manifests[:2]]
    assert [width["inputs_embeds"].max[1] for width in widths] == [1, 8]
    assert (root / "talker" / "generation_config.json").read_bytes() == (DEMO / "generation_config.json").read_bytes()
    assert (root / "talker" / "tokenizer.json").is_file()
    assert [line.split()[0] for line in lines] == ["exporting"] * 3 + ["building"] * 3


def test_the_temporary_export_leaves_no_second_copy_of_the_weights(built_demo: tuple[Path, list[str]]) -> None:
    root, _ = built_demo
    assert all(path.stat().st_nlink == 1 for path in root.rglob("*.data"))


def test_an_export_directory_is_kept_when_it_is_given(tmp_path: Path) -> None:
    limits = dict.fromkeys(COMPONENTS, BuildLimits())
    built = build_checkpoint(DEMO, tmp_path / "engines", limits, onnx_dir=tmp_path / "onnx")
    assert names(tmp_path / "onnx") == ["code2wav", "code_predictor", "llm"]
    for engine, export in zip(built, ("llm", "code_predictor", "code2wav"), strict=True):
        weights = engine.directory / engine.manifest.files[1].name
        assert not os.path.samefile(weights, tmp_path / "onnx" / export / "model.onnx.data")


def test_a_checkpoint_that_is_none_leaves_no_engines(tmp_path: Path) -> None:
    limits = dict.fromkeys(COMPONENTS, BuildLimits())
    with pytest.raises(CheckpointError):
        build_checkpoint(tmp_path / "absent", tmp_path / "engines", limits)
    assert not (tmp_path / "engines").exists()


def test_a_build_that_fails_leaves_no_directory_it_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise EngineError("out of luck")

    monkeypatch.setattr("cpspec_trt.builder.onnxruntime._check_loads", fail)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(EngineError, match="out of luck"):
        build_checkpoint(DEMO, tmp_path / "a" / "engines", dict.fromkeys(COMPONENTS, BuildLimits()))
    assert sorted(tmp_path.iterdir()) == before
    source = tiny_exports.write_talker(tmp_path / "onnx")
    with pytest.raises(EngineError, match="out of luck"):
        build_engine(source, tmp_path / "b" / "talker", LIMITS)
    assert sorted(tmp_path.iterdir()) == [source]


def test_a_qwen3_omni_checkpoint_becomes_four_engines(tmp_path: Path) -> None:
    limits = BuildLimits(max_input_len=32, max_kv_cache_capacity=64)
    built = build_checkpoint(PRETRAINED, tmp_path, dict.fromkeys(COMPONENTS, limits))
    assert [engine.directory for engine in built] == [tmp_path / component for component in COMPONENTS]
    manifests = [open_engine(engine.directory).manifest for engine in built]
    assert [manifest.component for manifest in manifests] == list(COMPONENTS)
    assert [manifest.max_new_positions("generation") for manifest in manifests[:3]] == [1, 1, 8]
    thinker = names(tmp_path / "thinker")
    assert {"embedding.safetensors", "tokenizer.json", "chat_template.jinja", "generation_config.json"} <= set(thinker)
    assert "hidden_projection.safetensors" in names(tmp_path / "talker")


def test_a_checkpoint_without_audio_output_becomes_one_engine_and_a_note(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(PRETRAINED, tmp_path / "checkpoint"))
    (copied / "config.json").write_text(json.dumps(OMNI | {"enable_audio_output": False}))
    (engine,) = build_checkpoint(copied, tmp_path / "engines", dict.fromkeys(COMPONENTS, BuildLimits()))
    assert (engine.plan.component, names(tmp_path / "engines")) == ("thinker", ["thinker"])
    assert "the checkpoint has no audio output: the Thinker answers in text alone" in engine.notes


def test_a_place_that_holds_something_else_is_refused_before_the_export(tmp_path: Path) -> None:
    (tmp_path / "engines" / "code2wav" / "music").mkdir(parents=True)
    lines: list[str] = []
    with pytest.raises(UsageError, match=r"code2wav: holds directories \(music\)"):
        build_checkpoint(DEMO, tmp_path / "engines", dict.fromkeys(COMPONENTS, BuildLimits()), progress=lines.append)
    assert lines == []


def test_an_engine_is_never_built_into_its_own_export(tmp_path: Path) -> None:
    source = tiny_exports.write_talker(tmp_path / "onnx")
    before = {path.name: sha256(path) for path in source.iterdir()}
    for target in (source, source / "engine"):
        with pytest.raises(UsageError, match=r"holds an export \(model.onnx\)|different directories"):
            build_engine(source, target, LIMITS)
    assert {path.name: sha256(path) for path in source.iterdir()} == before


@pytest.mark.parametrize("onnx", ["engines", "engines/talker"])
def test_engines_and_a_kept_export_of_a_checkpoint_lie_apart(tmp_path: Path, onnx: str) -> None:
    with pytest.raises(UsageError, match="give --engineDir and --onnxDir different directories"):
        build_checkpoint(DEMO, tmp_path / "engines", dict.fromkeys(COMPONENTS, BuildLimits()), onnx_dir=tmp_path / onnx)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("component", "limits"),
    [("talker", BuildLimits(max_kv_cache_capacity=512)), ("code_predictor", BuildLimits(max_input_len=1))],
)
def test_limits_that_fit_no_engine_are_refused_before_the_export(
    tmp_path: Path, component: str, limits: BuildLimits
) -> None:
    lines: list[str] = []
    with pytest.raises(UsageError, match="--maxInputLen"):
        build_checkpoint(
            DEMO,
            tmp_path / "engines",
            dict.fromkeys(COMPONENTS, BuildLimits()) | {component: limits},
            progress=lines.append,
        )
    assert (lines, list(tmp_path.iterdir())) == ([], [])


def test_an_engine_of_another_family_in_the_root_is_refused(tmp_path: Path) -> None:
    build_engine(tiny_exports.write_thinker(tmp_path / "onnx"), tmp_path / "engines" / "thinker", LIMITS)
    with pytest.raises(UsageError, match=r"engines/thinker: is an engine that this checkpoint does not have; remove"):
        build_checkpoint(DEMO, tmp_path / "engines", dict.fromkeys(COMPONENTS, BuildLimits()))
    assert names(tmp_path / "engines") == ["thinker"]


def interrupted(mode: str, directory: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.builder.interrupted_builds", mode, str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def can_exchange(directory: Path) -> bool:
    """Whether this file system swaps two directories in one step; without that a killed build may leave none."""
    first, second = directory / "first", directory / "second"
    first.mkdir()
    second.mkdir()
    return _exchange(first, second)


def test_a_build_killed_at_any_step_leaves_the_old_engine_or_the_new_one(tmp_path: Path) -> None:
    allowed = {"0", "1"} if can_exchange(tmp_path) else {"0", "1", "absent"}
    found = interrupted("every_step", tmp_path)
    assert set(found["states"]) <= allowed, found
    assert found["steps"] > 30
    assert found["states"]["0"] > 20  # killed while the new one was being written
    assert found["states"]["1"] > 2  # killed while the old one was being removed
    assert (found["final"], found["others"]) == ("1", [])


def test_a_first_build_killed_at_any_step_leaves_a_whole_engine_or_none(tmp_path: Path) -> None:
    found = interrupted("first_build", tmp_path)
    assert set(found["states"]) <= {"absent", "1"}, found
    assert found["states"]["absent"] > 5
    assert (found["final"], found["others"]) == ("1", [])


def test_builds_killed_at_random_moments_leave_a_whole_engine(tmp_path: Path) -> None:
    allowed = {"0", "1"} if can_exchange(tmp_path) else {"0", "1", "absent"}
    found = interrupted("random_moments", tmp_path)
    assert set(found["states"]) <= allowed, found
    assert (found["final"], found["others"]) == ("1", [])


def test_two_builds_into_one_directory_leave_one_whole_engine(tmp_path: Path) -> None:
    exchange = can_exchange(tmp_path)
    found = interrupted("race", tmp_path)
    assert found["failures"] == []
    assert found["final"] in {"0", "1"}
    assert found["others"] == []
    assert found["looks"] > 10
    if exchange:
        assert found["missing"] == 0
