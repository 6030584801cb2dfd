"""TensorRT engines over the simulated GPU: bound by address, enqueued without a wait, compared with their manifest."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpspec_trt.builder.build import build_checkpoint
from cpspec_trt.builder.engine_options import EngineOptions
from cpspec_trt.builder.profiles import CODE_PREDICTOR, COMPONENTS
from cpspec_trt.devices.arrays import DeviceArray, dtype_named
from cpspec_trt.devices.device import Device
from cpspec_trt.engines.engine import Tensors
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine
from cpspec_trt.engines.tensorrt import TensorRTEngine
from cpspec_trt.errors import EngineError
from cpspec_trt.files.manifest import ProfileName
from tests.conftest import TEST_LIMITS, Maker
from tests.engine_edits import accept_edits, edit_manifest
from tests.engines.test_onnxruntime import tensors_for
from tests.simulation.simulation import Simulation, simulated

SPEC = ("tiny", 54)


@pytest.fixture
def directory(device_engines: Maker) -> Path:
    return device_engines(*SPEC) / "code_predictor"


@pytest.fixture
def copied(directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(directory, tmp_path / "copy"))


@pytest.fixture
def device(simulation: Simulation) -> Iterator[Device]:
    with Device() as opened:
        yield opened


def inputs(manifest: Any, rows: int, seed: int) -> dict[str, np.ndarray]:
    """What a pass of the CodePredictor reads and writes, in host memory: random rows, everything visible."""
    tensors = tensors_for(manifest, rows)
    random = np.random.default_rng(seed)
    for name in ("inputs_embeds", "rope_cos", "rope_sin"):
        tensors[name][:] = random.standard_normal(tensors[name].shape)
    return tensors


def on_device(device: Device, tensors: Tensors) -> dict[str, DeviceArray]:
    """Copies; a present stays the same memory as its past."""
    names = {name: name.replace("present_", "past_") for name in tensors}
    arrays = {name: device.uploaded(tensors[name]) for name in set(names.values())}
    return {name: arrays[source] for name, source in names.items()}


def expected_rows(engines: Path, rows: int, seed: int) -> np.ndarray:
    """What ONNX Runtime makes of the same input."""
    engine = OnnxRuntimeEngine(engines / "code_predictor", threads=1)
    tensors = inputs(engine.manifest, rows, seed)
    engine.bind("generation", tensors).run()
    return tensors["hidden_states"]


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    """The graphs differ in how attention is written, so the last bits do."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def bound(
    engine: TensorRTEngine, rows: int, seed: int, captured: bool = False
) -> tuple[Callable[[], None], DeviceArray]:
    tensors = on_device(engine.device, inputs(engine.manifest, rows, seed))
    return engine.bind("generation", tensors, captured).run, tensors["hidden_states"]


def test_a_pass_gives_the_rows_of_onnx_runtime_once_the_stream_is_done(
    directory: Path, device: Device, synthetic_engines: Maker
) -> None:
    engine = open_engine(directory, device=device)
    assert isinstance(engine, TensorRTEngine)
    run, hidden = bound(engine, 3, 1)
    before = device.submitted.copy()
    run()
    assert device.submitted.since(before).passes == 1
    assert device.submitted.since(before).synchronisations == 0
    assert_close(device.read(hidden), expected_rows(synthetic_engines(*SPEC), 3, 1))


def test_passes_of_several_shapes_alternate_and_a_graph_keeps_its_own(
    directory: Path, device: Device, synthetic_engines: Maker
) -> None:
    engine = TensorRTEngine(directory, device)
    runs = {(rows, seed): bound(engine, rows, seed) for rows, seed in ((1, 1), (3, 2), (1, 3))}
    run, hidden = bound(engine, 2, 4, captured=True)
    run()
    device.synchronise()
    graph = device.capture(run)
    for _ in range(2):
        for other, _ in runs.values():
            other()
        device.clear(hidden)
        graph.launch()
    engines = synthetic_engines(*SPEC)
    for (rows, seed), (_, found) in {**runs, (2, 4): (run, hidden)}.items():
        assert_close(device.read(found), expected_rows(engines, rows, seed))


def test_tensorrt_for_rtx_runs_behind_the_same_face(
    synthetic_checkpoint: Maker, synthetic_engines: Maker, tmp_path: Path
) -> None:
    limits = dict.fromkeys(COMPONENTS, TEST_LIMITS)
    with simulated(capability=(8, 9)):
        build_checkpoint(
            synthetic_checkpoint(*SPEC), tmp_path, limits, "tensorrt-rtx", options=EngineOptions(precision="fp32")
        )
        with Device() as device:
            run, hidden = bound(TensorRTEngine(tmp_path / CODE_PREDICTOR, device), 2, 5)
            run()
            found = device.read(hidden)
    assert_close(found, expected_rows(synthetic_engines(*SPEC), 2, 5))


def test_only_passes_that_are_captured_get_kernels_of_their_shape(
    synthetic_checkpoint: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the others it would depend on the moment which kernels run, and with them on which side a code falls."""
    limits = dict.fromkeys(COMPONENTS, TEST_LIMITS)
    strategies: list[str] = []
    with simulated(capability=(8, 9)) as simulation:
        build_checkpoint(
            synthetic_checkpoint(*SPEC), tmp_path, limits, "tensorrt-rtx", options=EngineOptions(precision="fp32")
        )
        kind = simulation.tensorrt_rtx.ICudaEngine
        create = kind.create_execution_context

        def noted(self: Any, config: Any) -> Any:
            strategies.append(config.dynamic_shapes_kernel_specialization_strategy.name)
            return create(self, config)

        monkeypatch.setattr(kind, "create_execution_context", noted)
        with Device() as device:
            engine = TensorRTEngine(tmp_path / CODE_PREDICTOR, device)
            for captured in (False, True):
                bound(engine, 2, 5, captured)
    assert strategies == ["NONE", "EAGER"]


def test_a_version_compatible_engine_runs_under_a_later_version(
    synthetic_checkpoint: Maker, synthetic_engines: Maker, tmp_path: Path
) -> None:
    options = EngineOptions(precision="fp32", version_compatible=True)
    with simulated(tensorrt_version="11.4.0.12"):
        limits = dict.fromkeys(COMPONENTS, TEST_LIMITS)
        build_checkpoint(synthetic_checkpoint(*SPEC), tmp_path, limits, "tensorrt", options=options)
    with simulated(tensorrt_version="11.5.0.3"), Device() as device:
        run, hidden = bound(TensorRTEngine(tmp_path / CODE_PREDICTOR, device), 2, 5)
        run()
        found = device.read(hidden)
    assert_close(found, expected_rows(synthetic_engines(*SPEC), 2, 5))


def refused(
    directory: Path,
    device: Device,
    change: Callable[[dict[str, DeviceArray]], object],
    profile: ProfileName = "generation",
    rows: int = 2,
) -> None:
    engine = TensorRTEngine(directory, device)
    tensors = on_device(device, inputs(engine.manifest, rows, 0))
    change(tensors)
    engine.bind(profile, tensors)


def test_a_tensor_that_is_missing_unknown_or_of_another_dtype_is_named(directory: Path, device: Device) -> None:
    with pytest.raises(EngineError, match=r"generation profile: tensor 'rope_cos' is not bound"):
        refused(directory, device, lambda tensors: tensors.pop("rope_cos"))
    with pytest.raises(EngineError, match="the engine has no tensor 'other'"):
        refused(directory, device, lambda tensors: tensors.update(other=tensors["rope_cos"]))
    half = device.array((1, 2, 64), dtype_named("float16"))
    with pytest.raises(EngineError, match="tensor 'inputs_embeds' is float16, expected float32"):
        refused(directory, device, lambda tensors: tensors.update(inputs_embeds=half))


def test_more_rows_than_the_profile_takes_are_refused(directory: Path, device: Device) -> None:
    with pytest.raises(EngineError, match=r"the shape of 'inputs_embeds' is \[1, 9, 64\].*must lie in 1 … 8"):
        refused(directory, device, lambda tensors: None, rows=9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value["inputs"][0].update(dtype="float16"), "dtype of inputs_embeds: the engine has float32"),
        (
            lambda value: value["profiles"]["generation"]["inputs_embeds"].update(max=[4, 16, 64]),
            r"generation profile of inputs_embeds: the engine has .*\(4, 8, 64\)",
        ),
        (lambda value: value["outputs"].pop(), "tensors: the engine has "),
    ],
    ids=["dtype", "profile", "tensor"],
)
def test_an_engine_that_is_not_what_its_manifest_says_is_refused(
    copied: Path, device: Device, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    edit_manifest(copied, change)
    with pytest.raises(EngineError, match=message):
        TensorRTEngine(copied, device)


def test_what_tensorrt_says_of_a_file_it_cannot_load_is_part_of_the_error(copied: Path, device: Device) -> None:
    path = copied / "llm.engine"
    path.write_bytes(path.read_bytes()[:200])
    accept_edits(copied)
    with pytest.raises(EngineError, match=r"llm\.engine: TensorRT cannot load it: the engine should have .+") as error:
        TensorRTEngine(copied, device)
    free, rebuild = str(error.value).split("; ")[-2:]
    assert free == "if its memory is full, end other programs on the GPU"
    assert rebuild.startswith(f"or rebuild it with cpspec-build --onnxDir ONNX_DIR --engineDir {copied} --backend te")


def test_an_engine_of_onnx_runtime_is_refused(synthetic_engines: Maker, device: Device) -> None:
    with pytest.raises(EngineError, match=r"for the backend 'onnxruntime', not tensorrt or .* --backend tensorrt "):
        TensorRTEngine(synthetic_engines(*SPEC) / "code_predictor", device)


def test_without_a_given_device_an_engine_opens_one_and_takes_it_along(directory: Path, simulation: Simulation) -> None:
    engine = open_engine(directory)
    assert isinstance(engine, TensorRTEngine)
    assert simulation.live_allocations > 0
    del engine  # the simulation refuses what is left behind
