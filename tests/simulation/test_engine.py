"""The TensorRT stand-ins run engines in stream order, in place, and refuse what a correct program never does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.simulation.counts import Counts
from tests.simulation.engine_file import EngineContent, unpacked
from tests.simulation.faults import SimulationFault
from tests.simulation.simulation import Simulation, simulated
from tests.simulation.tiny_engine import CAPACITY, WIDTH, TinyPass, built, model
from tests.simulation.workbench import Workbench


class Setting:
    """An engine, its workbench, and a way to end them."""

    def __init__(self, simulation: Simulation, directory: Path) -> None:
        self.trt = simulation.tensorrt
        self.bench = Workbench(simulation)
        self.serialized = built(self.trt, directory)
        self.runtime = self.trt.Runtime(self.trt.Logger())
        self.engine: Any = self.runtime.deserialize_cuda_engine(self.serialized)
        self.tiny = TinyPass(self.bench, self.engine)
        self.tiny.feed(0, [0, 0])

    def close(self) -> None:
        self.bench.close()
        del self.tiny, self.engine


@pytest.fixture
def setting(simulation: Simulation, tmp_path: Path) -> Iterator[Setting]:
    found = Setting(simulation, tmp_path)
    yield found
    if not simulation.forgiven:
        found.close()


def test_an_engine_updates_its_cache_in_place_step_by_step(setting: Setting) -> None:
    tiny = setting.tiny
    for slot, values in enumerate(([1.0, 2.0], [10.0, 20.0], [100.0, 200.0])):
        tiny.feed(slot, values)
        assert tiny.run()
    assert tiny.sums() == [111, 222]


def test_a_run_is_put_off_until_somebody_waits_and_then_reads_what_lies_there(setting: Setting) -> None:
    tiny = setting.tiny
    tiny.feed(0, [1, 2])
    tiny.run()
    tiny.feed(0, [3, 4])
    tiny.run()
    assert tiny.sums() == [3, 4]


def test_a_captured_run_replays_over_the_addresses_it_was_captured_with(setting: Setting) -> None:
    tiny, bench = setting.tiny, setting.bench
    tiny.feed(0, [1, 2])
    tiny.run()
    graph = bench.graph(tiny.run)
    for slot in (1, 2):
        tiny.feed(slot, [1, 2])
        bench.runtime.cudaGraphLaunch(graph, bench.stream)
    assert tiny.sums() == [3, 6]
    bench.runtime.cudaGraphExecDestroy(graph)


def test_runs_are_counted(setting: Setting) -> None:
    tiny, counts = setting.tiny, setting.bench.simulation.counts
    before = counts.copy()
    tiny.run()
    tiny.run()
    assert counts - before == Counts(engine_runs=2)


def test_what_an_engine_says_of_itself_is_what_it_was_built_with(setting: Setting) -> None:
    engine, trt = setting.engine, setting.trt
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    assert names == ["rows", "write", "past", "present", "sum"]
    modes = [engine.get_tensor_mode(name) for name in names]
    assert modes == [trt.TensorIOMode.INPUT] * 3 + [trt.TensorIOMode.OUTPUT] * 2
    assert engine.get_tensor_dtype("write") == trt.DataType.INT64
    assert tuple(engine.get_tensor_shape("past")) == (-1, 1, CAPACITY, WIDTH)
    assert [tuple(shape) for shape in engine.get_tensor_profile_shape("write", 0)] == [(1,), (1,), (4,)]
    assert [tuple(shape) for shape in engine.get_tensor_profile_shape("write", 1)] == [(1,), (1,), (2,)]
    assert engine.num_optimization_profiles == 2
    assert engine.get_aliased_input_tensor("present") == "past"
    assert engine.get_aliased_input_tensor("sum") is None
    assert tuple(setting.tiny.context.get_tensor_shape("sum")) == (1, WIDTH)


def test_half_precision_runs_as_it_is(simulation: Simulation, tmp_path: Path) -> None:
    bench, trt = Workbench(simulation), simulation.tensorrt
    serialized = built(trt, tmp_path, model(TensorProto.FLOAT16))
    tiny = TinyPass(bench, trt.Runtime(trt.Logger()).deserialize_cuda_engine(serialized))
    bench.upload(tiny.rows, np.array([0.1, 2], np.float16))
    bench.upload(tiny.write, np.array([0], np.int64))
    tiny.run()
    bench.download(tiny.result, tiny.sum, 2 * WIDTH)
    bench.wait()
    assert bench.view(tiny.result, 1).view(np.float16).tolist() == [float(np.float16(0.1)), 2]
    bench.close()


def test_bfloat16_is_refused_because_nothing_here_can_run_it(simulation: Simulation, tmp_path: Path) -> None:
    trt = simulation.tensorrt
    serialized = built(trt, tmp_path, model(TensorProto.BFLOAT16))
    with pytest.raises(SimulationFault, match="no bfloat16 kernels"):
        trt.Runtime(trt.Logger()).deserialize_cuda_engine(serialized)
    simulation.forgive()


def other_context(setting: Setting) -> Any:
    return setting.engine.create_execution_context()


def unbound(setting: Setting) -> object:
    setting.tiny.context.set_tensor_address("sum", 0)
    return setting.tiny.run()


def bound(setting: Setting, name: str, address: int) -> object:
    setting.tiny.context.set_tensor_address(name, address)
    return setting.tiny.run()


def without_profile(setting: Setting) -> object:
    return other_context(setting).set_input_shape("write", (1,))


def without_shape(setting: Setting) -> object:
    context = other_context(setting)
    context.set_optimization_profile_async(1, int(setting.bench.stream))
    return context.execute_async_v3(int(setting.bench.stream))


def contradicting(setting: Setting) -> object:
    setting.tiny.context.set_input_shape("write", (2,))
    return setting.tiny.run()


def on_another_stream(setting: Setting) -> object:
    _, stream = setting.bench.runtime.cudaStreamCreate()
    return setting.tiny.context.execute_async_v3(int(stream))


def freed(setting: Setting) -> object:
    setting.bench.free(setting.tiny.sum)
    return setting.tiny.run()


def freed_behind_a_graph(setting: Setting) -> object:
    setting.tiny.run()
    graph = setting.bench.graph(setting.tiny.run)
    setting.bench.free(setting.tiny.sum)
    return setting.bench.runtime.cudaGraphLaunch(graph, setting.bench.stream)


def capture_at_first(setting: Setting) -> object:
    return setting.bench.graph(setting.tiny.run)


def profile_in_capture(setting: Setting) -> object:
    return setting.bench.graph(
        lambda: setting.tiny.context.set_optimization_profile_async(1, int(setting.bench.stream))
    )


def changed_after_capture(setting: Setting) -> object:
    setting.tiny.run()
    setting.bench.graph(setting.tiny.run)
    return setting.tiny.context.set_tensor_address("sum", setting.bench.device(4 * WIDTH))


def graph_of_a_destroyed_context(setting: Setting) -> object:
    setting.tiny.run()
    graph = setting.bench.graph(setting.tiny.run)
    setting.tiny.context = None
    return setting.bench.runtime.cudaGraphLaunch(graph, setting.bench.stream)


def without_memory(setting: Setting) -> object:
    own = setting.trt.ExecutionContextAllocationStrategy.USER_MANAGED
    setting.tiny.context = context = setting.engine.create_execution_context(own)
    context.set_optimization_profile_async(1, int(setting.bench.stream))
    return setting.tiny.run()


def too_little_memory(setting: Setting) -> object:
    own = setting.trt.ExecutionContextAllocationStrategy.USER_MANAGED
    context = setting.engine.create_execution_context(own)
    return context.set_device_memory(setting.bench.device(8), 8)


MISUSES: dict[str, tuple[Callable[[Setting], object], str]] = {
    "unbound": (unbound, "'sum' is bound to no address"),
    "bound to host memory": (lambda s: bound(s, "sum", np.zeros(2, np.float32).ctypes.data), "no memory that the dev"),
    "bound to pinned memory": (lambda s: bound(s, "sum", s.bench.pinned(8)), "'sum' lies in pinned memory"),
    "bound askew": (lambda s: bound(s, "sum", s.bench.device(64) + 4), "not aligned to 256 bytes"),
    "bound to too little": (lambda s: bound(s, "sum", s.bench.device(4)), "8 bytes at offset 0 do not fit into 4"),
    "cache apart": (lambda s: bound(s, "present", s.bench.device(32)), "'present' must lie where 'past' lies"),
    "overlapping": (lambda s: bound(s, "sum", s.tiny.rows), "overlap in memory"),
    "unknown name": (lambda s: s.tiny.context.set_tensor_address("nothing", 0), "no tensor 'nothing'"),
    "shape of an output": (lambda s: s.tiny.context.set_input_shape("sum", (1, 2)), "no input 'sum'"),
    "outside the profile": (lambda s: s.tiny.context.set_input_shape("write", (3,)), "lies outside profile 1"),
    "other rank": (lambda s: s.tiny.context.set_input_shape("write", (1, 1)), "lies outside profile 1"),
    "no such profile": (
        lambda s: s.tiny.context.set_optimization_profile_async(2, int(s.bench.stream)),
        "no profile 2",
    ),
    "without a profile": (without_profile, "no optimization profile was set"),
    "without a shape": (without_shape, "the shape of rows, write, past is not set"),
    "contradicting shapes": (contradicting, "'batch' is 1 elsewhere and 2 in 'write'"),
    "on another stream": (on_another_stream, "another stream"),
    "after free": (freed, "use after free"),
    "freed behind a graph": (freed_behind_a_graph, "was freed"),
    "captured at first": (capture_at_first, "captured before a run of these shapes"),
    "profile in a capture": (profile_in_capture, "set_optimization_profile_async is forbidden"),
    "changed after a capture": (changed_after_capture, "must stay as it was"),
    "graph of a destroyed context": (graph_of_a_destroyed_context, "an execution context of engine 'tiny' was destr"),
    "no memory given": (without_memory, "given no device memory"),
    "too little memory given": (too_little_memory, "are needed"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_of_tensorrt_is_a_fault(setting: Setting, name: str) -> None:
    misuse, message = MISUSES[name]
    setting.bench.simulation.forgive()
    with pytest.raises(SimulationFault, match=message):
        misuse(setting)


def test_an_engine_or_context_left_behind_is_named(tmp_path: Path) -> None:
    kept: list[Any] = []

    def run() -> None:
        with simulated() as simulation:
            trt = simulation.tensorrt
            engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(built(trt, tmp_path))
            kept.append(engine.create_execution_context())

    with pytest.raises(SimulationFault, match=r"of an execution context of engine 'tiny'(.|\n)*held since"):
        run()


def test_a_runtime_without_a_driver_is_a_fault() -> None:
    with simulated(driver=False) as simulation:
        with pytest.raises(SimulationFault, match="without a driver"):
            simulation.tensorrt.Runtime(simulation.tensorrt.Logger())
        simulation.forgive()


class Lines:
    """A logger's lines."""

    def __init__(self, trt: Any) -> None:
        self.lines: list[str] = []
        lines = self.lines

        class Logger(trt.ILogger):  # type: ignore[misc]
            def __init__(self) -> None:
                trt.ILogger.__init__(self)

            def log(self, severity: Any, line: str) -> None:
                if severity == trt.ILogger.ERROR:
                    lines.append(line)

        self.logger = Logger()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file[:-1], "the engine should have"),
        (lambda file: b"MZ" + file, "this is no engine"),
        (lambda file: file.replace(b"simulation of", b"revelation of"), "an engine of real TensorRT"),
    ],
    ids=["truncated", "of another kind", "real"],
)
def test_a_file_that_is_no_engine_gives_none_and_a_reason(
    simulation: Simulation, tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    trt = simulation.tensorrt
    serialized = built(trt, tmp_path)
    assert serialized is not None
    log = Lines(trt)
    assert trt.Runtime(log.logger).deserialize_cuda_engine(change(serialized)) is None
    assert message in log.lines[0]
    assert "simulation" in log.lines[0]


def test_an_engine_of_another_version_or_flavour_gives_none_and_a_reason(tmp_path: Path) -> None:
    with simulated(tensorrt_version="10.15.1.2") as simulation:
        serialized = built(simulation.tensorrt, tmp_path)
    with simulated() as simulation:
        for trt in (simulation.tensorrt, simulation.tensorrt_rtx):
            log = Lines(trt)
            assert trt.Runtime(log.logger).deserialize_cuda_engine(serialized) is None
            assert "built by tensorrt 10.15.1.2" in log.lines[0]


def test_an_engine_that_carries_code_is_opened_where_that_is_allowed_by_its_version_and_later_ones(
    tmp_path: Path,
) -> None:
    with simulated(tensorrt_version="11.1.0.1") as simulation:
        serialized = built(simulation.tensorrt, tmp_path, version_compatible=True)
    for version, opens in (("11.1.0.1", True), ("11.2.0.0", True), ("11.0.9.9", False), ("12.0.0.0", False)):
        with simulated(tensorrt_version=version) as simulation:
            log = Lines(simulation.tensorrt)
            runtime = simulation.tensorrt.Runtime(log.logger)
            assert runtime.deserialize_cuda_engine(serialized) is None
            assert "host code" in log.lines[0]
            runtime.engine_host_code_allowed = True
            assert (runtime.deserialize_cuda_engine(serialized) is not None) == opens


def test_an_engine_or_context_that_does_not_fit_gives_none(tmp_path: Path) -> None:
    with simulated() as simulation:
        serialized = built(simulation.tensorrt, tmp_path)
    assert serialized is not None
    with simulated(memory=100) as simulation:
        log = Lines(simulation.tensorrt)
        assert simulation.tensorrt.Runtime(log.logger).deserialize_cuda_engine(serialized) is None
        assert log.lines == ["CUDA error: out of memory (simulation)"]
    content = unpacked(serialized)
    assert isinstance(content, EngineContent)
    with simulated(memory=len(content.model)) as simulation:
        engine = simulation.tensorrt.Runtime(simulation.tensorrt.Logger()).deserialize_cuda_engine(serialized)
        assert engine.create_execution_context() is None
        del engine


@pytest.mark.parametrize("flavour", ["tensorrt", "tensorrt_rtx"])
def test_what_real_tensorrt_refuses_to_build_is_refused(simulation: Simulation, tmp_path: Path, flavour: str) -> None:
    trt = getattr(simulation, flavour)
    with pytest.raises(ValueError, match="static sequence length"):
        built(trt, tmp_path, model(capacity="capacity"))
    incomplete = model()
    incomplete.graph.node[0].output[0] = "elsewhere"
    incomplete.graph.node[1].input[0] = "elsewhere"
    del incomplete.graph.output[0]
    with pytest.raises(ValueError, match="must be a network input and output"):
        built(trt, tmp_path, incomplete)


def test_a_build_without_a_range_for_a_dynamic_input_gives_none(simulation: Simulation, tmp_path: Path) -> None:
    trt = simulation.tensorrt
    log = Lines(trt)
    extra = model()
    extra.graph.input.append(extra.graph.input[1])
    extra.graph.input[3].name = "unknown"
    assert built(trt, tmp_path, extra, log.logger) is None
    assert log.lines == ["profile 0: the dynamic input unknown has no range"]


def test_a_logger_that_was_not_initialised_is_refused(simulation: Simulation) -> None:
    class Careless(simulation.tensorrt.ILogger):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError, match="must be called"):
        simulation.tensorrt.Builder(Careless())


def test_lines_of_a_logger_are_labelled_as_a_simulation(
    simulation: Simulation, capsys: pytest.CaptureFixture[str]
) -> None:
    simulation.tensorrt.Logger().log(simulation.tensorrt.Logger.ERROR, "something")
    assert capsys.readouterr().out == "[simulation of TensorRT] [ERROR] something\n"
