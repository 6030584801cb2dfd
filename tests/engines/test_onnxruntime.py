"""Passes are bound once, checked against the profile, and refuse what the engine was not built for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.engines.engine import Tensors
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.manifest import Manifest, ProfileName
from tests.engine_edits import accept_edits, edit_manifest
from tests.files.test_manifest import TENSORRT_BUILD


def tensors_for(manifest: Manifest, rows: int) -> dict[str, np.ndarray]:
    """Zeroed arrays of the generation profile's usual shapes, with ``rows`` new positions."""
    shapes = {name: list(found.opt) for name, found in manifest.profile("generation").inputs.items()}
    batch, capacity = 1, shapes["past_key_0"][2]
    for name, shape in shapes.items():
        shape[0] = batch
        if name in ("inputs_embeds", "attention_mask", "rope_cos", "rope_sin"):
            shape[1] = rows
        if name == "attention_mask":
            shape[2] = capacity
    dtypes = {info.name: info.dtype for info in (*manifest.inputs, *manifest.outputs)}
    found = {name: np.zeros(shape, dtypes[name]) for name, shape in shapes.items()}
    width = next(info.shape[-1] for info in manifest.outputs if info.name == "hidden_states")
    found["hidden_states"] = np.zeros((batch, rows, width), np.float32)
    caches = [name for name in found if name.startswith("past_")]
    return found | {name.replace("past_", "present_"): found[name] for name in caches}


@pytest.fixture
def directory(demo_engines: Path) -> Path:
    return demo_engines / "code_predictor"


def bind(directory: Path, profile: ProfileName, change: Callable[[dict[str, np.ndarray]], Tensors], rows: int) -> None:
    engine = open_engine(directory, threads=1)
    engine.bind(profile, change(tensors_for(engine.manifest, rows)))


def test_a_bound_pass_reads_and_writes_the_callers_memory(directory: Path) -> None:
    engine = open_engine(directory, threads=1)
    tensors = tensors_for(engine.manifest, 2)
    bound = engine.bind("generation", tensors)
    generator = np.random.default_rng(0)
    tensors["inputs_embeds"][:] = generator.standard_normal(tensors["inputs_embeds"].shape)
    tensors["rope_cos"].fill(1.0)
    bound.run()
    first = tensors["hidden_states"].copy()
    assert np.abs(first).max() > 0
    assert np.abs(tensors["past_key_0"][:, :, :2]).max() > 0, "the KV cache is not updated in place"
    tensors["inputs_embeds"][:] = generator.standard_normal(tensors["inputs_embeds"].shape)
    bound.run()
    assert not np.array_equal(first, tensors["hidden_states"])


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_the_generation_profile_of_a_code_predictor_takes_one_to_eight_rows(directory: Path, rows: int) -> None:
    bind(directory, "generation", dict, rows)


def test_more_rows_than_the_profile_allows_are_refused(directory: Path) -> None:
    with pytest.raises(EngineError, match=r"generation profile.*dimension 1 must lie in 1 … 8.*cpspec-build"):
        bind(directory, "generation", dict, 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {k: v for k, v in t.items() if k != "rope_cos"}, "'rope_cos' is not bound"),
        (lambda t: t | {"nonsense": np.zeros(1, np.float32)}, "no tensor 'nonsense'"),
        (lambda t: t | {"inputs_embeds": t["inputs_embeds"].astype(np.float64)}, "'inputs_embeds' is float64"),
        (lambda t: t | {"rope_cos": np.zeros((1, 2, 64), np.float32)[:, :, ::4]}, "'rope_cos' is not contiguous"),
    ],
)
def test_a_wrong_binding_names_the_tensor(
    directory: Path, change: Callable[[dict[str, np.ndarray]], Tensors], message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        bind(directory, "generation", change, 2)


def test_a_missing_directory_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"nowhere: the engine directory does not exist; build it with cpspec-build"):
        open_engine(tmp_path / "nowhere")


def copied(directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(directory, tmp_path / "copy"))


def test_a_truncated_engine_is_refused_before_it_is_loaded(directory: Path, tmp_path: Path) -> None:
    copy = copied(directory, tmp_path)
    graph = copy / "llm.onnx"
    graph.write_bytes(graph.read_bytes()[:-10])
    with pytest.raises(EngineError, match=r"llm\.onnx: has \d+ bytes, the manifest says \d+; rebuild it"):
        open_engine(copy)


def test_a_changed_engine_is_refused_before_it_is_loaded(directory: Path, tmp_path: Path) -> None:
    copy = copied(directory, tmp_path)
    graph = copy / "llm.onnx"
    content = bytearray(graph.read_bytes())
    content[100] ^= 1
    graph.write_bytes(content)
    with pytest.raises(EngineError, match=r"llm\.onnx: its content is not what was built"):
        open_engine(copy)


def test_an_engine_of_another_backend_is_not_opened_here(directory: Path, tmp_path: Path) -> None:
    copy = copied(directory, tmp_path)
    edit_manifest(copy, lambda value: value.update(backend="tensorrt", build=TENSORRT_BUILD))
    with pytest.raises(EngineError, match=r"for the backend 'tensorrt', not onnxruntime; rebuild it with cpspec-build"):
        OnnxRuntimeEngine(copy)


def test_an_engine_that_onnx_runtime_cannot_load_names_both_versions_and_the_command(
    directory: Path, tmp_path: Path
) -> None:
    copy = copied(directory, tmp_path)
    (copy / "llm.onnx").write_bytes(b"no graph")
    accept_edits(copy)
    built = r"it was built with [\d.]+, here is [\d.]+"
    command = f"rebuild it with cpspec-build --onnxDir ONNX_DIR --engineDir {copy} --backend onnxruntime"
    with pytest.raises(EngineError, match=rf"cannot load it \(.*\); {built}; {command}"):
        open_engine(copy)
