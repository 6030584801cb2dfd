"""Engines of published size, without a GPU: the CodePredictor as a whole, one layer of each kind of Talker."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpspec_trt.builder import tensorrt
from cpspec_trt.builder.engine_options import EngineOptions, EngineSettings, Precision, check_options
from cpspec_trt.builder.profiles import BuildLimits, plan
from tests.builder.real_components import CODE_PREDICTOR, DENSE_TALKER_LAYER, MOE_TALKER_LAYER, RealComponent

LIMITS = BuildLimits(max_input_len=256, max_batch_size=1, max_kv_cache_capacity=1024)
MEGABYTES = 1_000_000


def build(component: RealComponent, directory: Path, precision: Precision) -> tensorrt.TensorRTEngineFile:
    exported = component.write(directory / "onnx")
    build_plan = plan(exported.config, exported.inputs, LIMITS, static_capacity=True)
    settings = check_options(EngineOptions(precision=precision), "tensorrt-rtx")
    assert isinstance(settings, EngineSettings)
    (directory / "engine").mkdir()
    return tensorrt.write_engine(exported, build_plan, settings, directory / "engine")


@pytest.mark.parametrize(
    ("component", "precision", "parameters"),
    [
        pytest.param(CODE_PREDICTOR, "fp16", 79e6, id="code predictor"),
        pytest.param(DENSE_TALKER_LAYER, "bf16", 57e6, id="dense talker layer"),
        pytest.param(MOE_TALKER_LAYER, "bf16", 161e6, id="talker layer of 128 experts"),
    ],
)
def test_a_component_of_published_size_becomes_an_engine(
    tmp_path: Path, component: RealComponent, precision: Precision, parameters: float
) -> None:
    built = build(component, tmp_path, precision)
    weights = (tmp_path / "onnx" / "model.onnx.data").stat().st_size
    assert weights == pytest.approx(4 * parameters, rel=0.02)
    assert built.path.read_bytes()[:4] == b"vtrt"
    # nearly every weight takes two bytes; TensorRT may keep one of them in two layouts
    assert 1.9 * parameters < built.path.stat().st_size < 5 * parameters
    assert list((tmp_path / "engine").iterdir()) == [built.path]
