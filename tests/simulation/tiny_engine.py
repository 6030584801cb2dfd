"""A small engine with a KV cache, and a context over it that is ready to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.simulation.workbench import Workbench

CAPACITY, WIDTH = 4, 2
PROFILES = ((1, 1, 4), (1, 1, 2))  # batch of either profile: min, opt, max


def model(element: int = TensorProto.FLOAT, capacity: int | str = CAPACITY) -> onnx.ModelProto:
    """``rows`` [batch, 1, 1, 2] are written into ``past`` at ``write`` [batch]; ``sum`` is what all slots add up to."""
    cache = ["batch", 1, capacity, WIDTH]
    inputs = [
        helper.make_tensor_value_info("rows", element, ["batch", 1, 1, WIDTH]),
        helper.make_tensor_value_info("write", TensorProto.INT64, ["batch"]),
        helper.make_tensor_value_info("past", element, cache),
    ]
    outputs = [
        helper.make_tensor_value_info("present", element, cache),
        helper.make_tensor_value_info("sum", element, ["batch", WIDTH]),
    ]
    nodes = [
        helper.make_node("TensorScatter", ["past", "rows", "write"], ["present"], axis=2),
        helper.make_node("ReduceSum", ["present", "axes"], ["sum"], keepdims=0),
    ]
    axes = onnx.numpy_helper.from_array(np.array([1, 2], np.int64), "axes")
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, [axes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


def shapes(batch: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs."""
    return {"rows": (batch, 1, 1, WIDTH), "write": (batch,), "past": (batch, 1, CAPACITY, WIDTH)}


def built(
    trt: Any,
    directory: Path,
    graph: onnx.ModelProto | None = None,
    logger: Any = None,
    version_compatible: bool = False,
) -> bytes | None:
    """The engine's file, by the builder of a TensorRT module."""
    path = directory / "tiny.onnx"
    path.write_bytes((graph or model()).SerializeToString())
    logger = logger or trt.Logger()
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(path)):
        raise ValueError(parser.get_error(0).desc())
    config = builder.create_builder_config()
    if version_compatible:
        config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
    for ranges in PROFILES:
        profile = builder.create_optimization_profile()
        for name in shapes(1):
            profile.set_shape(name, *(shapes(batch)[name] for batch in ranges))
        config.add_optimization_profile(profile)
    serialized = builder.build_serialized_network(network, config)
    return None if serialized is None else bytes(memoryview(serialized))


class TinyPass:
    """An execution context with everything set for one sequence."""

    def __init__(self, bench: Workbench, engine: Any, profile: int = 1) -> None:
        self.bench = bench
        self.engine = engine
        self.context = engine.create_execution_context()
        self.context.set_optimization_profile_async(profile, int(bench.stream))
        self.rows, self.write = bench.device(4 * WIDTH), bench.device(8)
        self.cache, self.sum = bench.device(4 * CAPACITY * WIDTH), bench.device(4 * WIDTH)
        self.result = bench.pinned(4 * WIDTH)
        bench.runtime.cudaMemsetAsync(self.cache, 0, 4 * CAPACITY * WIDTH, bench.stream)
        for name, shape in shapes(1).items():
            self.context.set_input_shape(name, shape)
        self.addresses = {
            "rows": self.rows, "write": self.write, "past": self.cache, "present": self.cache, "sum": self.sum
        }  # fmt: skip
        for name, address in self.addresses.items():
            self.context.set_tensor_address(name, address)

    def feed(self, slot: int, values: list[float]) -> None:
        """Enqueue a new row."""
        self.bench.upload(self.rows, np.array(values, np.float32))
        self.bench.upload(self.write, np.array([slot], np.int64))

    def run(self) -> bool:
        """Enqueue the engine."""
        return bool(self.context.execute_async_v3(int(self.bench.stream)))

    def sums(self) -> list[float]:
        """The output, once the stream is done."""
        self.bench.download(self.result, self.sum, 4 * WIDTH)
        self.bench.wait()
        found: list[float] = self.bench.view(self.result, WIDTH).tolist()
        return found
