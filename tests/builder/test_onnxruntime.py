"""The embedded backend: the engine computes what the export computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from cpspec_trt.builder.exported import read_export
from cpspec_trt.builder.onnxruntime import backend_version, write_engine
from cpspec_trt.errors import EngineError
from tests.builder import tiny_exports


def run_waveform(path: Path) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    frames, half = 3, tiny_exports.HEAD_DIM // 2
    feeds = {
        "codes": np.arange(tiny_exports.QUANTIZERS * frames).reshape(1, -1, frames),
        "attention_mask": np.zeros((1, frames, tiny_exports.WINDOW - 1 + frames), np.float32),
        "rope_cos": np.zeros((1, frames, half), np.float32),
        "rope_sin": np.zeros((1, frames, half), np.float32),
        "state_key_0": np.zeros((1, 2, tiny_exports.WINDOW - 1, tiny_exports.HEAD_DIM), np.float32),
    }
    (waveform,) = session.run(["waveform"], feeds)
    return np.asarray(waveform)


def test_the_engine_computes_what_the_export_computes_without_it(tmp_path: Path) -> None:
    source = tiny_exports.write_code2wav(tmp_path / "onnx", seed=3)
    (tmp_path / "engine").mkdir()
    files = write_engine(read_export(source), "code2wav", tmp_path / "engine", False, "fp32").files
    assert [path.name for path in files] == ["code2wav.onnx", "code2wav.onnx.data"]
    expected = run_waveform(source / "model.onnx")
    for path in source.iterdir():
        path.unlink()  # the engine must stand on its own
    np.testing.assert_array_equal(run_waveform(files[0]), expected)
    assert np.ptp(expected) > 0


def test_decoders_are_called_llm_and_point_to_their_own_weights(tmp_path: Path) -> None:
    exported = read_export(tiny_exports.write_talker(tmp_path / "onnx"))
    (tmp_path / "engine").mkdir()
    graph, weights = write_engine(exported, "talker", tmp_path / "engine", False, "fp32").files
    assert (graph.name, weights.name) == ("llm.onnx", "llm.onnx.data")
    tensor = onnx.load(graph, load_external_data=False).graph.initializer[0]
    assert {entry.key: entry.value for entry in tensor.external_data}["location"] == "llm.onnx.data"
    assert exported.model.graph.initializer[0].external_data[0].value == "model.onnx.data"  # the export stays as it was


def test_weights_are_shared_only_when_asked(tmp_path: Path) -> None:
    exported = read_export(tiny_exports.write_talker(tmp_path / "onnx"))
    source = (tmp_path / "onnx" / "model.onnx.data").stat().st_ino
    for name, link in (("linked", True), ("copied", False)):
        (tmp_path / name).mkdir()
        _, weights = write_engine(exported, "talker", tmp_path / name, link, "fp32").files
        assert (weights.stat().st_ino == source) is link


def test_a_graph_that_onnx_runtime_refuses_says_why(tmp_path: Path) -> None:
    tiny_exports.write_code2wav(tmp_path)
    graph = tiny_exports.code2wav_graph()
    graph.node.append(helper.make_node("NoSuchOperator", ["codes"], ["nothing"]))
    tiny_exports.write_model(tmp_path, graph, 0)
    exported = read_export(tmp_path)
    (tmp_path / "engine").mkdir()
    with pytest.raises(EngineError, match=r"ONNX Runtime \d+\.\d+\.\d+ cannot load.*NoSuchOperator") as caught:
        write_engine(exported, "code2wav", tmp_path / "engine", False, "fp32")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("link", [False, True])
def test_code2wav_stays_fp32_and_says_so(tmp_path: Path, link: bool) -> None:
    exported = read_export(tiny_exports.write_code2wav(tmp_path / "onnx"))
    (tmp_path / "engine").mkdir()
    written = write_engine(exported, "code2wav", tmp_path / "engine", link, "int8")
    assert (written.precision, written.notes) == ("fp32", ("stays fp32: int8 is for decoders",))
    np.testing.assert_array_equal(run_waveform(written.files[0]), run_waveform(tmp_path / "onnx" / "model.onnx"))


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert backend_version() == version("onnxruntime")
