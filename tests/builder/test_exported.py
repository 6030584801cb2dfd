"""Reading exported directories: what is wrong with them is said in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import save_file

from cpspec_trt.builder.exported import read_export
from cpspec_trt.errors import EngineError, UnsupportedError, UsageError
from cpspec_trt.files.engine_config import CodePredictorConfig
from tests.builder import tiny_exports


def test_an_export_is_read_without_its_weights(tmp_path: Path) -> None:
    found = read_export(tiny_exports.write_code_predictor(tmp_path))
    assert isinstance(found.config, CodePredictorConfig)
    assert found.component == "code_predictor"
    assert found.precision == "fp32"
    assert found.data_file == tmp_path / "model.onnx.data"
    assert not found.model.graph.initializer[0].raw_data
    by_name = {info.name: info for info in found.inputs}
    assert by_name["inputs_embeds"].shape == (-1, -1, tiny_exports.WIDTH)
    assert by_name["write_indices"].dtype == "int64"
    assert found.outputs[0].name == "hidden_states"


def test_tables_and_tokenizer_files_travel_and_other_files_do_not(tmp_path: Path) -> None:
    tiny_exports.write_talker(tmp_path)
    (tmp_path / "voice_map.json").write_text("{}")
    (tmp_path / "export.log").write_text("noise")
    names = [path.name for path in read_export(tmp_path).sidecars()]
    assert names == [
        "embedding.safetensors",
        "generation_config.json",
        "text_embedding.safetensors",
        "text_projection.safetensors",
        "tokenizer.json",
        "vocabulary.txt",
        "voice_map.json",
    ]


def test_files_of_a_thinker_travel_and_its_projections_are_the_talkers(tmp_path: Path) -> None:
    thinker = read_export(tiny_exports.write_thinker(tmp_path / "thinker"))
    assert thinker.component == "thinker"
    assert [path.name for path in thinker.sidecars()] == [
        "chat_template.jinja",
        "embedding.safetensors",
        "tokenizer.json",
    ]
    talker = read_export(tiny_exports.write_omni_talker(tmp_path / "talker"))
    assert talker.component == "talker"
    assert [path.name for path in talker.sidecars()] == [
        "embedding.safetensors",
        "hidden_projection.safetensors",
        "text_projection.safetensors",
    ]


def test_missing_tables_of_a_thinker_and_its_talker_are_listed(tmp_path: Path) -> None:
    thinker, talker = tmp_path / "thinker", tmp_path / "talker"
    tiny_exports.write_thinker(thinker)
    (thinker / "embedding.safetensors").unlink()
    with pytest.raises(EngineError, match=r"thinker: missing embedding.safetensors; export"):
        read_export(thinker)
    tiny_exports.write_omni_talker(talker)
    for name in ("text_projection", "hidden_projection"):
        (talker / f"{name}.safetensors").unlink()
    with pytest.raises(EngineError, match=r"talker: missing text_projection.safetensors, hidden_projection.safetensor"):
        read_export(talker)


def test_a_projection_for_a_thinker_of_another_width_is_refused(tmp_path: Path) -> None:
    tiny_exports.write_omni_talker(tmp_path, thinker_hidden_size=11)
    with pytest.raises(EngineError, match=r"projection.safetensors: tensor 'linear_fc1.weight' has shape \[12, 10\]"):
        read_export(tmp_path)


def test_a_thinker_without_rows_for_the_talker_was_not_exported_here(tmp_path: Path) -> None:
    tiny_exports.write_thinker(tmp_path)
    graph = tiny_exports.thinker_graph()
    graph.node[2].output[0] = graph.output[1].name = "hidden_states"
    tiny_exports.write_model(tmp_path, graph, 0)
    with pytest.raises(UnsupportedError, match="it has no output 'accept_hidden'"):
        read_export(tmp_path)


def test_a_directory_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"onnx directory .*nowhere does not exist"):
        read_export(tmp_path / "nowhere")


def test_a_directory_without_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=f"config.json not found in onnx directory: {tmp_path}; .*cpspec-export"):
        read_export(tmp_path)


def test_the_root_of_an_export_names_the_components_to_pass(tmp_path: Path) -> None:
    tiny_exports.write_talker(tmp_path / "llm")
    tiny_exports.write_code2wav(tmp_path / "code2wav")
    with pytest.raises(EngineError, match=f"components code2wav, llm: pass one.*{tmp_path / 'code2wav'}"):
        read_export(tmp_path)


def test_a_missing_graph_is_named(tmp_path: Path) -> None:
    tiny_exports.write_talker(tmp_path)
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(EngineError, match=r"model.onnx: the exported graph is missing"):
        read_export(tmp_path)


@pytest.mark.parametrize("content", [b"not a graph at all", b""], ids=["garbage", "empty"])
def test_a_file_that_is_no_graph_is_named(tmp_path: Path, content: bytes) -> None:
    tiny_exports.write_talker(tmp_path)
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(EngineError, match=r"model.onnx: (is not an ONNX graph|holds no graph).*cpspec-export"):
        read_export(tmp_path)


@pytest.mark.parametrize(
    ("op_type", "domain", "shown"),
    [("AttentionPlugin", "trt", "trt::AttentionPlugin"), ("AttentionPlugin", "", "AttentionPlugin")],
)
def test_an_export_of_the_reference_is_recognised_by_its_plugins(
    tmp_path: Path, op_type: str, domain: str, shown: str
) -> None:
    graph = tiny_exports.talker_graph()
    graph.node.append(helper.make_node(op_type, ["inputs_embeds"], ["attention"], domain=domain))
    tiny_exports.write_model(tmp_path, graph, 0)
    (tmp_path / "config.json").write_text('{"model": "qwen3_tts_talker"}')  # the reference's lacks our fields
    with pytest.raises(UnsupportedError, match=rf"holds the operator {shown}\).*run cpspec-export CHECKPOINT ONNX_DIR"):
        read_export(tmp_path)


def test_a_decoder_without_hidden_states_is_recognised_as_foreign(tmp_path: Path) -> None:
    tiny_exports.write_talker(tmp_path)
    graph = tiny_exports.talker_graph()
    del graph.output[1]
    tiny_exports.write_model(tmp_path, graph, 0)
    with pytest.raises(UnsupportedError, match=r"no output 'hidden_states'.*cpspec-build --checkpoint CHECKPOINT"):
        read_export(tmp_path)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    tiny_exports.write_talker(tmp_path)
    (tmp_path / "model.onnx.data").unlink()
    with pytest.raises(EngineError, match=r"model.onnx.data: the graph's weights are missing"):
        read_export(tmp_path)


def test_the_first_weight_beyond_the_end_of_the_data_is_named(tmp_path: Path) -> None:
    tiny_exports.write_talker(tmp_path)
    data = (tmp_path / "model.onnx.data").read_bytes()
    (tmp_path / "model.onnx.data").write_bytes(data[:-1])
    with pytest.raises(EngineError, match=f"is truncated: weight 'weight' ends at byte {len(data)}"):
        read_export(tmp_path)


@pytest.mark.parametrize("location", ["../model.onnx.data", "/etc/hostname", ""])
def test_weights_outside_the_directory_are_refused(tmp_path: Path, location: str) -> None:
    tiny_exports.write_talker(tmp_path)
    graph = tiny_exports.talker_graph()
    graph.initializer[0].external_data[0].value = location
    tiny_exports.write_model(tmp_path, graph, 0)
    with pytest.raises(EngineError, match="its weights must lie in one file beside it"):
        read_export(tmp_path)


def test_an_offset_that_is_no_number_is_refused(tmp_path: Path) -> None:
    tiny_exports.write_talker(tmp_path)
    graph = tiny_exports.talker_graph()
    graph.initializer[0].external_data[1].value = "-4"
    tiny_exports.write_model(tmp_path, graph, 0)
    with pytest.raises(EngineError, match="weight 'weight' has offset '-4', which is no number of bytes"):
        read_export(tmp_path)


def test_a_value_that_is_no_tensor_is_named(tmp_path: Path) -> None:
    tiny_exports.write_talker(tmp_path)
    graph = tiny_exports.talker_graph()
    graph.input[0].type.tensor_type.elem_type = TensorProto.UNDEFINED
    tiny_exports.write_model(tmp_path, graph, 0)
    with pytest.raises(EngineError, match="graph value 'inputs_embeds' is not a tensor of a known type"):
        read_export(tmp_path)


def test_weights_inside_the_graph_are_accepted(tmp_path: Path) -> None:
    tiny_exports.write_code2wav(tmp_path)
    model = onnx.load(tmp_path / "model.onnx")
    onnx.save(model, tmp_path / "model.onnx")
    assert read_export(tmp_path).data_file is None


def test_all_missing_tables_are_listed_at_once(tmp_path: Path) -> None:
    tiny_exports.write_talker(tmp_path)
    (tmp_path / "embedding.safetensors").unlink()
    (tmp_path / "text_projection.safetensors").unlink()
    with pytest.raises(EngineError, match=r"missing embedding.safetensors, text_projection.safetensors; export"):
        read_export(tmp_path)


def test_a_table_of_the_wrong_shape_is_found_before_the_engine_is_built(tmp_path: Path) -> None:
    tiny_exports.write_code_predictor(tmp_path)
    depths = range(tiny_exports.GROUPS - 1)
    wrong = {f"lm_head_{i}.weight": np.zeros((tiny_exports.CODEBOOK, 7), np.float32) for i in depths}
    save_file(wrong, tmp_path / "lm_heads.safetensors")
    with pytest.raises(EngineError, match=r"lm_heads.safetensors: tensor 'lm_head_0.weight' has shape \[32, 7\]"):
        read_export(tmp_path)


def test_a_missing_config_field_is_named(tmp_path: Path) -> None:
    tiny_exports.write_talker(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["rope_theta"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineError, match=r"config.json: required field 'rope_theta' is missing"):
        read_export(tmp_path)


def test_half_precision_exports_are_recognised(tmp_path: Path) -> None:
    tiny_exports.write_code2wav(tmp_path)
    graph = tiny_exports.code2wav_graph()
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    tiny_exports.write_model(tmp_path, graph, 0)
    assert read_export(tmp_path).precision == "fp16"
