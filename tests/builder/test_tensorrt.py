"""The TensorRT backend over graphs of a few nodes: what is set is read back, and failures carry TensorRT's words.

Everything here runs TensorRT for RTX itself, without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import tensorrt_rtx as trt
from onnx import TensorProto, helper

from cpspec_trt.builder import tensorrt
from cpspec_trt.builder.build import build_engine
from cpspec_trt.builder.build_log import BuildLog
from cpspec_trt.builder.engine_options import EngineOptions, EngineSettings, check_options
from cpspec_trt.builder.exported import read_export
from cpspec_trt.builder.flavour import RTX
from cpspec_trt.builder.profiles import BuildLimits, plan
from cpspec_trt.errors import EngineError
from cpspec_trt.files.manifest import Profile, ShapeRange, read_manifest
from tests.builder import tiny_exports

LIMITS = BuildLimits(max_input_len=64, max_batch_size=2, max_kv_cache_capacity=128)
Shapes = dict[str, tuple[tuple[int, ...], ...]]


def settings(**options: Any) -> EngineSettings:
    found = check_options(EngineOptions(**options), "tensorrt-rtx")
    assert isinstance(found, EngineSettings)
    return found


@pytest.fixture
def log() -> BuildLog:
    return BuildLog(trt, RTX, "talker")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> dict[str, Shapes]:
    """Profile -> input -> min, opt, max, as TensorRT's own profile objects hold them when a build adds them."""
    found: dict[str, Shapes] = {}
    real = tensorrt.add_profile

    def add(builder: Any, config: Any, profile: Profile, log: BuildLog) -> Any:
        added = real(builder, config, profile, log)
        assert config.num_optimization_profiles == len(found) + 1
        found[profile.name] = {name: tuple(tuple(s) for s in added.get_shape(name)) for name in profile.inputs}
        return added

    monkeypatch.setattr(tensorrt, "add_profile", add)
    return found


def test_both_profiles_of_a_code_predictor_are_what_tensorrt_holds(tmp_path: Path, held: dict[str, Shapes]) -> None:
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    build_engine(source, tmp_path / "engine", LIMITS, "tensorrt-rtx")
    assert list(held) == ["context", "generation"]  # numbers 0 and 1
    assert held["context"]["inputs_embeds"] == ((1, 1, 8), (2, 8, 8), (2, 16, 8))
    assert held["generation"]["inputs_embeds"] == ((1, 1, 8), (2, 1, 8), (2, 8, 8))
    assert held["generation"]["attention_mask"] == ((1, 1, 24), (2, 1, 24), (2, 8, 24))
    assert held["generation"]["past_key_0"] == ((1, 2, 24, 4), (2, 2, 24, 4), (2, 2, 24, 4))
    assert held["generation"]["write_indices"] == ((1,), (2,), (2,))


def test_a_code_predictor_differs_from_a_plain_build_in_the_generation_maximum_alone(
    tmp_path: Path, held: dict[str, Shapes]
) -> None:
    """The plain build takes the same graph for what is no CodePredictor: one new position per generation pass."""
    exported = read_export(tiny_exports.write_code_predictor(tmp_path / "onnx"))
    widened = plan(exported.config, exported.inputs, LIMITS, static_capacity=True)
    one_row = {"inputs_embeds", "attention_mask", "rope_cos", "rope_sin"}

    def narrowed(name: str, found: ShapeRange) -> ShapeRange:
        return replace(found, max=(found.max[0], 1, *found.max[2:])) if name in one_row else found

    context, generation = widened.profiles
    plain_inputs = {name: narrowed(name, found) for name, found in generation.inputs.items()}
    plain = replace(widened, profiles=(context, Profile("generation", plain_inputs)))
    shapes = []
    for number, build_plan in enumerate((plain, widened)):
        (tmp_path / str(number)).mkdir()
        tensorrt.write_engine(exported, build_plan, settings(), tmp_path / str(number))
        shapes.append(dict(held))
        held.clear()
    without, with_speculation = shapes
    assert with_speculation["context"] == without["context"]
    for name, (low, usual, high) in with_speculation["generation"].items():
        assert (low, usual) == without["generation"][name][:2], name
        if name in one_row:
            assert usual[1] == 1
            assert (without["generation"][name][2][1], high[1]) == (1, 8)
        else:
            assert high == without["generation"][name][2]


def test_a_language_model_has_one_cache_size_and_a_mask_over_any_part_of_it(
    tmp_path: Path, held: dict[str, Shapes]
) -> None:
    exported = read_export(tiny_exports.write_talker(tmp_path / "onnx"))
    found = plan(exported.config, exported.inputs, LIMITS, static_capacity=True)
    for profile in found.profiles:
        past, mask = profile.inputs["past_key_0"], profile.inputs["attention_mask"]
        assert (past.min[2], past.opt[2], past.max[2]) == (128, 128, 128)
        assert (mask.min[2], mask.max[2]) == (1, 128)
    larger = replace(LIMITS, max_kv_cache_capacity=4096)
    opt = plan(exported.config, exported.inputs, larger, static_capacity=True).profiles[1].inputs["attention_mask"].opt
    assert opt == (2, 1, 512)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (ShapeRange((4, 1, 8), (2, 1, 8), (4, 8, 8)), "dimension 0 must have 1 <= min <= opt <= max, found 4, 2, 4"),
        (ShapeRange((1, 1, 8), (1, 9, 8), (1, 8, 8)), "dimension 1 must have 1 <= min <= opt <= max, found 1, 9, 8"),
    ],
)
def test_a_range_that_is_none_is_refused_by_us_for_tensorrt_would_take_it(
    log: BuildLog, found: ShapeRange, message: str
) -> None:
    builder = trt.Builder(log.logger)
    taken = builder.create_optimization_profile()
    taken.set_shape("x", found.min, found.opt, found.max)  # no error
    with pytest.raises(EngineError, match=f"generation profile, input 'x': {message}"):
        tensorrt.add_profile(builder, builder.create_builder_config(), Profile("generation", {"x": found}), log)


def test_every_setting_reaches_the_configuration(log: BuildLog) -> None:
    config = trt.Builder(log.logger).create_builder_config()
    assert config.get_flag(trt.BuilderFlag.TF32)
    wanted = settings(optimization_level=1, workspace_mib=64, compute_capabilities=("12.0", "8.9"))
    tensorrt.configure(trt, config, wanted, log)
    assert config.builder_optimization_level == 1
    assert config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE) == 64 << 20
    assert not config.get_flag(trt.BuilderFlag.TF32)
    targets = [config.get_compute_capability(number) for number in range(config.num_compute_capabilities)]
    assert targets == [trt.ComputeCapability.SM89, trt.ComputeCapability.SM120]


def test_a_portable_build_names_no_target(log: BuildLog) -> None:
    config = trt.Builder(log.logger).create_builder_config()
    tensorrt.configure(trt, config, settings(), log)
    assert config.num_compute_capabilities == 0
    assert config.builder_optimization_level == 3


def test_a_graph_that_tensorrt_does_not_take_is_refused_in_its_words(tmp_path: Path) -> None:
    source, graph = tiny_exports.write_talker(tmp_path / "onnx"), tiny_exports.talker_graph()
    graph.node.append(helper.make_node("Unique", ["inputs_embeds"], ["unique"], name="the_node"))
    graph.output.append(helper.make_tensor_value_info("unique", TensorProto.FLOAT, ["found"]))
    tiny_exports.write_model(source, graph, 0)
    with pytest.raises(
        EngineError, match=r"talker: tensorrt-rtx does not take the graph: Unique the_node .+"
    ) as caught:
        build_engine(source, tmp_path / "engine", LIMITS, "tensorrt-rtx", EngineOptions(precision="fp32"))
    assert "\n" not in str(caught.value)
    assert "cudaError" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["onnx"]


def test_a_build_that_fails_says_what_tensorrt_says(tmp_path: Path) -> None:
    """Settings that ``check_options`` would refuse: bf16 for a GPU that does not have it."""
    exported = read_export(tiny_exports.write_code_predictor(tmp_path / "onnx"))
    wanted = replace(settings(precision="bf16"), compute_capabilities=("7.5",))
    (tmp_path / "engine").mkdir()
    build_plan = plan(exported.config, exported.inputs, LIMITS, static_capacity=True)
    with pytest.raises(EngineError, match=r"code_predictor: tensorrt-rtx cannot build the engine: .*sm75") as caught:
        tensorrt.write_engine(exported, build_plan, wanted, tmp_path / "engine")
    assert "cudaError" not in str(caught.value)


@pytest.mark.parametrize(("limit", "named"), [(None, False), (2, True)])
def test_a_build_that_fails_under_a_limit_of_scratch_memory_names_its_flag(
    tmp_path: Path, limit: int | None, named: bool
) -> None:
    exported = read_export(tiny_exports.write_code_predictor(tmp_path / "onnx"))
    wanted = replace(settings(precision="bf16", workspace_mib=limit), compute_capabilities=("7.5",))
    (tmp_path / "engine").mkdir()
    build_plan = plan(exported.config, exported.inputs, LIMITS, static_capacity=True)
    with pytest.raises(EngineError, match="cannot build the engine") as caught:
        tensorrt.write_engine(exported, build_plan, wanted, tmp_path / "engine")
    remedy = "a layer may take 2 MiB: raise --workspaceMiB or leave it out if that is why"
    assert str(caught.value).endswith(remedy) == named


def test_an_input_that_nothing_reads_is_found_before_the_build(log: BuildLog, tmp_path: Path) -> None:
    exported = read_export(tiny_exports.write_talker(tmp_path))
    network = trt.Builder(log.logger).create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    for info in exported.inputs[1:]:
        network.add_input(info.name, trt.float32, info.shape)
    with pytest.raises(EngineError, match=r"has other inputs than the graph \(inputs_embeds\)"):
        tensorrt.check_inputs(network, exported.inputs, log)


def test_weights_that_vanish_are_counted_for_the_user(tmp_path: Path) -> None:
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    (source / "model.onnx.data").write_bytes(b"\x01\x00\x00\x01" * (8 * 6))  # 2.4e-38 each
    built = build_engine(source, tmp_path / "engine", LIMITS, "tensorrt-rtx", EngineOptions(precision="fp16"))
    assert built.notes == ("48 of 48 weights are too small for fp16 and became 0",)


def test_a_weight_beyond_fp16_is_refused_with_what_to_do(tmp_path: Path) -> None:
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    (source / "model.onnx.data").write_bytes(b"\x00\x00\x80\x7b" * (8 * 6))  # 1.3e36 each
    with pytest.raises(EngineError, match=r"weight 'weight' holds 1\.3.*e\+36.*--precision bf16"):
        build_engine(source, tmp_path / "engine", LIMITS, "tensorrt-rtx", EngineOptions(precision="fp16"))


def test_the_log_file_collects_the_whole_log_of_every_component(tmp_path: Path) -> None:
    options = EngineOptions(build_log=tmp_path / "build.log")
    writers: dict[str, Callable[..., Path]] = {
        "talker": tiny_exports.write_talker,
        "code_predictor": tiny_exports.write_code_predictor,
    }
    for name, write in writers.items():
        build_engine(write(tmp_path / f"onnx_{name}"), tmp_path / name, LIMITS, "tensorrt-rtx", options)
    lines = (tmp_path / "build.log").read_text().splitlines()
    for name in writers:
        assert any(line.startswith(f"{name} VERBOSE ") for line in lines)
    with pytest.raises(EngineError, match=r"--buildLog .*: cannot be written: Is a directory"):
        build_engine(
            tmp_path / "onnx_talker", tmp_path / "talker", LIMITS, "tensorrt-rtx", EngineOptions(build_log=tmp_path)
        )
    read_manifest(tmp_path / "talker")  # what was there stands


def test_attention_that_no_fused_kernel_takes_is_taken_apart(log: BuildLog, tmp_path: Path) -> None:
    """In fp32 TensorRT refuses the operator unless it may."""
    names = ("query", "key", "value")
    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 8, 16]) for name in names]
    node = helper.make_node("Attention", list(names), ["y"], name="attention")
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 8, 16])
    model = helper.make_model(
        helper.make_graph([node], "attention", rows, [output]),
        opset_imports=[helper.make_opsetid("", 24)],
        ir_version=11,
    )
    onnx.save(model, tmp_path / "model.onnx")
    builder = trt.Builder(log.logger)
    network, _parser = tensorrt.parse(trt, builder, tmp_path / "model.onnx", log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is not None
