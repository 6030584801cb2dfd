"""Builds with full TensorRT over the simulated GPU: stand-ins for the modules, which no test machine has a GPU for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.builder import flavour, tensorrt
from cpspec_trt.builder.build import build_checkpoint, build_engine
from cpspec_trt.builder.build_log import BuildLog
from cpspec_trt.builder.engine_options import EngineOptions, EngineSettings
from cpspec_trt.builder.profiles import COMPONENTS, BuildLimits
from cpspec_trt.devices import cuda
from cpspec_trt.errors import CheckpointError, EngineError, UsageError
from tests.builder import tiny_exports
from tests.conftest import DEMO_CHECKPOINT
from tests.simulation.simulation import simulated
from tests.simulation.tensorrt_builder import IBuilderConfig

LIMITS = BuildLimits(max_input_len=64, max_batch_size=2, max_kv_cache_capacity=128)


@pytest.fixture(autouse=True)
def gpu_of_the_simulation(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flavour, "probe", cuda.probe)


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The configuration of each build, as it was when its settings were in."""
    found: list[Any] = []
    real = tensorrt.configure

    def configure(trt: Any, config: Any, settings: EngineSettings, log: BuildLog) -> None:
        real(trt, config, settings, log)
        found.append((trt, config))

    monkeypatch.setattr(tensorrt, "configure", configure)
    return found


def test_an_engine_is_built_for_the_gpu_of_the_machine(tmp_path: Path, configured: list[Any]) -> None:
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    with simulated(capability=(8, 6), tensorrt_version="10.15.1.29"):
        built = build_engine(source, tmp_path / "engine", LIMITS, "tensorrt")
        trt, config = configured[0]
        assert not config.get_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
        assert config.hardware_compatibility_level == trt.HardwareCompatibilityLevel.NONE
        assert config.num_optimization_profiles == 2
    manifest, facts = built.manifest, built.manifest.build
    assert (manifest.backend, manifest.backend_version, manifest.precision) == ("tensorrt", "10.15.1.29", "bf16")
    assert facts is not None
    assert (facts.compute_capabilities, facts.hardware_compatible) == (("8.6",), False)


def test_what_only_full_tensorrt_can_do_reaches_its_configuration(tmp_path: Path, configured: list[Any]) -> None:
    options = EngineOptions(version_compatible=True, hardware_compatible=True, timing_cache=tmp_path / "times")
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    with simulated():
        built = build_engine(source, tmp_path / "engine", LIMITS, "tensorrt", options)
        trt, config = configured[0]
        assert config.get_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
        assert config.hardware_compatibility_level == trt.HardwareCompatibilityLevel.AMPERE_PLUS
        kept = (tmp_path / "times").read_bytes()
        assert kept == config.get_timing_cache().serialize()
    facts = built.manifest.build
    assert facts is not None
    assert (facts.version_compatible, facts.hardware_compatible) == (True, True)


def test_turing_gets_fp16(tmp_path: Path) -> None:
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    with simulated(capability=(7, 5)):
        assert build_engine(source, tmp_path / "engine", LIMITS, "tensorrt").manifest.precision == "fp16"
        with pytest.raises(UsageError, match=r"--precision bf16: GPUs of compute capability 7\.5 do not have it"):
            build_engine(source, tmp_path / "engine", LIMITS, "tensorrt", EngineOptions(precision="bf16"))


def test_auto_builds_with_tensorrt_where_it_can_run(tmp_path: Path) -> None:
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    with simulated():
        assert build_engine(source, tmp_path / "engine", LIMITS, "auto").manifest.backend == "tensorrt"


@pytest.mark.parametrize("machine", [{"driver": False}, {"devices": 0}])
def test_nothing_of_tensorrt_is_made_without_a_gpu(tmp_path: Path, machine: dict[str, Any]) -> None:
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    with simulated(**machine):
        with pytest.raises(EngineError, match=r"--backend tensorrt: builds on the GPU .*or use --backend tensorrt-rtx"):
            build_engine(source, tmp_path / "engine", LIMITS, "tensorrt")
        assert build_engine(source, tmp_path / "engine", LIMITS, "auto").manifest.backend == "onnxruntime"


OLD = "10.13.3.9"  # of JetPack


def test_a_tensorrt_that_is_too_old_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with (
        simulated(tensorrt_version=OLD),
        pytest.raises(EngineError, match=r"TensorRT 10\.13\.3\.9 is installed.*or use --backend onnxruntime"),
    ):
        build_checkpoint(tmp_path / "absent", tmp_path / "engines", {}, "tensorrt")


def test_auto_says_that_a_tensorrt_too_old_was_left_out(tmp_path: Path) -> None:
    source = tiny_exports.write_code_predictor(tmp_path / "onnx")
    lines: list[str] = []
    with simulated(tensorrt_version=OLD):
        built = build_engine(source, tmp_path / "engine", LIMITS)
        with pytest.raises(CheckpointError):
            build_checkpoint(tmp_path / "absent", tmp_path / "engines", {}, progress=lines.append)
    assert built.manifest.backend == "onnxruntime"
    assert built.notes[0].startswith("engines are built with onnxruntime, since --backend tensorrt: TensorRT 10.13.3.9")
    assert lines == [f"note: {built.notes[0]}"]


def _refused_timing_cache(monkeypatch: pytest.MonkeyPatch, path: Path) -> EngineOptions:
    path.write_bytes(b"of another GPU")
    monkeypatch.setattr(IBuilderConfig, "set_timing_cache", lambda config, cache, ignore_mismatch: False)
    return EngineOptions(timing_cache=path)


@pytest.mark.parametrize("fault", ["log", "timing cache in a file", "timing cache that is refused"])
def test_a_log_or_a_timing_cache_that_cannot_be_used_is_found_before_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    (tmp_path / "file").write_text("x")
    options, message = {
        "log": (EngineOptions(build_log=tmp_path / "file" / "log"), "--buildLog .*log: cannot be written: Not a dir"),
        "timing cache in a file": (
            EngineOptions(timing_cache=tmp_path / "file" / "times"),
            "timing cache .*times: cannot be written: Not a directory",
        ),
        "timing cache that is refused": (
            _refused_timing_cache(monkeypatch, tmp_path / "times"),
            r"--timingCache: tensorrt cannot use the timing cache .*times \(made elsewhere",
        ),
    }[fault]
    before = sorted(tmp_path.iterdir())
    lines: list[str] = []
    limits = dict.fromkeys(COMPONENTS, BuildLimits())
    with simulated(), pytest.raises(EngineError, match=message):
        build_checkpoint(
            DEMO_CHECKPOINT, tmp_path / "engines", limits, "tensorrt", progress=lines.append, options=options
        )
    assert lines == []
    assert sorted(tmp_path.iterdir()) == before
