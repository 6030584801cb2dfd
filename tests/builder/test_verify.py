"""Full verification of built engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpspec_trt.builder.build import build_engine
from cpspec_trt.builder.profiles import BuildLimits
from cpspec_trt.builder.verify import verify_engines
from cpspec_trt.errors import EngineError
from tests.builder import tiny_exports


@pytest.fixture
def root(tmp_path: Path) -> Path:
    limits = BuildLimits()
    build_engine(tiny_exports.write_talker(tmp_path / "onnx" / "llm"), tmp_path / "engines" / "talker", limits)
    predictor = tiny_exports.write_code_predictor(tmp_path / "onnx" / "code_predictor")
    build_engine(predictor, tmp_path / "engines" / "code_predictor", limits)
    return tmp_path / "engines"


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1 if content[-1:] != b"\n" else content.rindex(b"1")] ^= 1  # a config stays JSON
    path.write_bytes(content)


def test_untouched_engines_pass_one_by_one_or_as_a_root(root: Path) -> None:
    assert [manifest.component for _, manifest in verify_engines(root)] == ["code_predictor", "talker"]
    assert [path for path, _ in verify_engines(root / "talker")] == [root / "talker"]


@pytest.mark.parametrize(
    "name", ["llm.onnx", "llm.onnx.data", "text_embedding.safetensors", "generation_config.json", "config.json"]
)
def test_one_changed_byte_anywhere_is_found(root: Path, name: str) -> None:
    flip_last_byte(root / "talker" / name)
    with pytest.raises(EngineError, match=f"{name}: its content is not what was built"):
        verify_engines(root)


def test_a_missing_table_is_found(root: Path) -> None:
    (root / "code_predictor" / "lm_heads.safetensors").unlink()
    with pytest.raises(EngineError, match=r"lm_heads.safetensors: the engine file is missing"):
        verify_engines(root)


def test_a_component_that_lost_its_manifest_is_found(root: Path) -> None:
    (root / "code_predictor" / "engine_manifest.json").unlink()
    with pytest.raises(
        EngineError, match=r"code_predictor/engine_manifest.json: the engine manifest .* does not exist"
    ):
        verify_engines(root)


def test_code2wav_below_multimodal_is_verified_too(tmp_path: Path, root: Path) -> None:
    build_engine(tiny_exports.write_code2wav(tmp_path / "onnx" / "wav"), root / "multimodal", BuildLimits())
    assert [manifest.component for _, manifest in verify_engines(root)] == ["code_predictor", "talker", "code2wav"]
    flip_last_byte(root / "multimodal" / "code2wav" / "code2wav.onnx.data")
    with pytest.raises(EngineError, match=r"code2wav.onnx.data: its content is not what was built"):
        verify_engines(root)


def test_a_directory_without_engines_says_so(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"holds no engine \(engine_manifest.json\)"):
        verify_engines(tmp_path)


def test_components_of_different_checkpoints_are_found(tmp_path: Path, root: Path) -> None:
    other = tiny_exports.write_code2wav(tmp_path / "other", checkpoint_fingerprint="another")
    build_engine(other, root, BuildLimits())
    with pytest.raises(EngineError, match="come from different checkpoints"):
        verify_engines(root)


def test_a_config_of_another_build_is_found(root: Path) -> None:
    path = root / "talker" / "config.json"
    config = json.loads(path.read_text())
    config["checkpoint_fingerprint"] = "another"
    path.write_text(json.dumps(config))
    with pytest.raises(EngineError, match="belong to different builds"):
        verify_engines(root / "talker")
