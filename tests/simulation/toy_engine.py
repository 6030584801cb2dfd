"""The toy of tests/speculation as an engine: its codes are kept in the KV cache, and a row is the one-hot node."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cpspec_trt.builder.exported import tensors_of
from cpspec_trt.devices.device import Device
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.files.engine_config import CodePredictorConfig, DecoderDimensions
from cpspec_trt.files.manifest import (
    BuildFacts,
    Manifest,
    Profile,
    ProfileName,
    ShapeRange,
    describe_file,
    write_manifest,
)
from cpspec_trt.files.sidecars import CodePredictorTables
from cpspec_trt.kernels.device import DeviceKernels
from cpspec_trt.speculation.policy import FixedPolicy, Widths, is_chain
from cpspec_trt.speculation.rules import Rule
from cpspec_trt.stages.device_code_predictor import DeviceCodePredictor
from cpspec_trt.stages.device_frame_start import FrameStart
from cpspec_trt.stages.device_frames import DeviceFrameDecoder, cut_short
from cpspec_trt.stages.device_round import DeviceRound
from cpspec_trt.stages.device_tree_round import DeviceTreeRound
from tests.speculation.toy import Toy

CAPACITY = 20
MOST_ROWS = 8


def model(toy: Toy) -> onnx.ModelProto:
    """A fed row holds 1 + code (0 for c0 and before). The node behind codes x_1 … x_s is sum of (1 + x_i) V^(s-i).

    The codes behind a row are those of the slots that its mask shows, in their order.
    """
    cache = ["batch", 1, CAPACITY, 1]
    inputs = {
        "inputs_embeds": ["batch", "new", 1],
        "attention_mask": ["batch", "new", CAPACITY],
        "rope_cos": ["batch", "new", 1],
        "rope_sin": ["batch", "new", 1],
        "write_indices": ["batch"],
        "past_key_0": cache,
    }
    outputs = {"present_key_0": cache, "hidden_states": ["batch", "new", toy.nodes]}
    constants = {
        "row_shape": np.array([0, 1, -1, 1], np.int64),
        "slot_shape": np.array([0, 1, CAPACITY], np.int64),
        "last": np.array([2], np.int64),
        "keys": np.array(2, np.int64),
        "masked": np.float32(-1),
        "zero": np.float32(0),
        "one": np.float32(1),
        "radix": np.float32(toy.codebook),
        "nodes": np.array([toy.nodes], np.int64),
        "off_on": np.array([0, 1], np.float32),
    }
    steps = [
        ("Reshape", ["inputs_embeds", "row_shape"], "rows", {}),
        ("TensorScatter", ["past_key_0", "rows", "write_indices"], "present_key_0", {"axis": 2}),
        ("Reshape", ["present_key_0", "slot_shape"], "fed", {}),
        ("Greater", ["attention_mask", "masked"], "seen", {}),
        ("Where", ["seen", "one", "zero"], "ones", {}),
        ("ReduceSum", ["ones", "last"], "visible", {"keepdims": 1}),
        ("CumSum", ["ones", "keys"], "rank", {}),
        ("Sub", ["visible", "rank"], "distance", {}),
        ("Max", ["distance", "zero"], "exponent", {}),
        ("Pow", ["radix", "exponent"], "weight", {}),
        ("Mul", ["fed", "weight"], "weighted", {}),
        ("Where", ["seen", "weighted", "zero"], "terms", {}),
        ("ReduceSum", ["terms", "last"], "number", {"keepdims": 0}),
        ("Cast", ["number"], "node", {"to": TensorProto.INT64}),
        ("OneHot", ["node", "nodes", "off_on"], "hidden_states", {"axis": -1}),
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, sources, [result], **more) for kind, sources, result, more in steps],
        "toy",
        [helper.make_tensor_value_info(name, _element(name), shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


def _element(name: str) -> int:
    return int(TensorProto.INT64 if name == "write_indices" else TensorProto.FLOAT)


def write_engine(trt: Any, directory: Path, toy: Toy, batch: int) -> None:
    """Build the engine and its manifest for a batch of exactly that size, by a TensorRT module of the simulation."""
    graph = model(toy)
    inputs, outputs = tensors_of(graph.graph.input), tensors_of(graph.graph.output)
    kinds: tuple[ProfileName, ProfileName] = ("context", "generation")
    profiles = tuple(
        Profile(kind, {info.name: _range(info.shape, batch, most) for info in inputs})
        for kind, most in zip(kinds, (2, MOST_ROWS), strict=True)
    )
    (directory / "toy.onnx").write_bytes(graph.SerializeToString())
    (directory / "llm.engine").write_bytes(_built(trt, directory / "toy.onnx", profiles))
    (directory / "config.json").write_text("{}", encoding="utf-8")
    facts = BuildFacts(trt.__version__, platform.system(), platform.machine(), ("9.0",), 3, None, False, False)
    write_manifest(
        directory,
        Manifest(
            backend="tensorrt",
            backend_version=trt.__version__,
            component="code_predictor",
            model="toy",
            checkpoint_fingerprint="toy",
            precision="fp32",
            inputs=inputs,
            outputs=outputs,
            profiles=profiles,
            limits={"max_batch_size": batch, "max_kv_cache_capacity": CAPACITY},
            files=(describe_file(directory / "llm.engine"),),
            sidecars=(describe_file(directory / "config.json"),),
            build=facts,
        ),
    )


def _range(shape: tuple[int, ...], batch: int, most: int) -> ShapeRange:
    """The first dimension is the batch; another dynamic one counts rows."""

    def sized(rows: int) -> tuple[int, ...]:
        return (batch, *(rows if size < 0 else size for size in shape[1:]))

    return ShapeRange(sized(1), sized(1), sized(most))


def _built(trt: Any, graph: Path, profiles: tuple[Profile, ...]) -> bytes:
    logger = trt.Logger()
    builder = trt.Builder(logger)
    network, config = builder.create_network(), builder.create_builder_config()
    parser = trt.OnnxParser(network, logger)
    assert parser.parse_from_file(str(graph)), parser.get_error(0).desc()
    for profile in profiles:
        added = builder.create_optimization_profile()
        for name, found in profile.inputs.items():
            added.set_shape(name, found.min, found.opt, found.max)
        config.add_optimization_profile(added)
    return bytes(builder.build_serialized_network(network, config))


def open_decoder(
    device: Device, directory: Path, toy: Toy, window: int, rule: Rule, batch: int, widths: Widths = ()
) -> DeviceFrameDecoder:
    """The product's frame decoder over the toy; c0 is 0 in every frame. Drafts are chains where there are no widths."""
    config = CodePredictorConfig("toy", "toy", _dimensions(toy), toy.groups, talker_hidden_size=1)
    codes = np.arange(1, toy.codebook + 1, dtype=np.float32)
    embeddings = np.broadcast_to(codes[None, :, None], (toy.groups - 1, toy.codebook, 1))
    tables = CodePredictorTables(np.ascontiguousarray(embeddings), toy.heads)
    engine = TensorRTEngine(directory, device)
    first = np.zeros((toy.codebook, 1), np.float32)
    predictor = DeviceCodePredictor(engine, config, tables, first, DeviceKernels(device), batch)
    hidden, zeros = device.array((batch, 1), np.dtype(np.float32)), device.array((batch,), np.dtype(np.int64))
    start = FrameStart(predictor, hidden, zeros)
    largest = widths or (1,) * max(window - 1, 0)
    rounds = {
        each: DeviceRound(predictor, len(each), rule) if is_chain(each) else DeviceTreeRound(predictor, each, rule)
        for each in cut_short([largest])
    }
    return DeviceFrameDecoder(predictor, start, rounds, window, rule, FixedPolicy(largest))


def _dimensions(toy: Toy) -> DecoderDimensions:
    return DecoderDimensions(
        num_hidden_layers=1,
        hidden_size=toy.nodes,
        intermediate_size=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=2,
        vocab_size=toy.codebook,
        max_position_embeddings=CAPACITY,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
    )
