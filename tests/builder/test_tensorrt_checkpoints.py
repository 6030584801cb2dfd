"""Every component of the tiny checkpoints through ``cpspec-build --backend tensorrt-rtx``: engines, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from cpspec_trt.builder.verify import verify_engines
from cpspec_trt.files.manifest import Manifest
from tests.builder import tiny_exports
from tests.conftest import ROOT, Maker

SIZES = ("--maxInputLen=64", "--maxBatchSize=2", "--maxKVCacheCapacity=128", "--optCodeLen=20", "--maxCodeLen=100")
FAMILIES = {
    "tiny": ("code2wav", "code_predictor", "talker"),
    "omni-tiny": ("code2wav", "code_predictor", "talker", "thinker"),
}
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
# Byte 32 of an engine is the set of its GPUs, found by comparing builds: bit 0 is 7.5, then 8.0, 8.6, 8.9, 12.0 …
TARGETS = {"portable": 0x7E, "8.6,8.9": 0x0C}


def build(source_flag: str, source: Path, engines: Path, *flags: str) -> dict[str, Manifest]:
    """Manifest of each component, after every byte of what it lists was compared."""
    command = [sys.executable, "-m", "cpspec_trt.cli.build", source_flag, source, "--engineDir", engines, *flags]
    done = subprocess.run(
        [*map(str, command), "--backend", "tensorrt-rtx"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return {directory.name: manifest for directory, manifest in verify_engines(engines)}


def check_engine(directory: Path, manifest: Manifest, precision: str, targets: str) -> None:
    """The file is TensorRT's, of the installed version, for the targets; the manifest agrees with it."""
    name = "code2wav.engine" if manifest.component == "code2wav" else "llm.engine"
    assert [file.name for file in manifest.files] == [name]
    header = (directory / name).read_bytes()[:40]
    installed = version("tensorrt-rtx-cu13")
    assert header[:4] == b"vtrt"
    assert ".".join(str(byte) for byte in header[24:28]) == installed
    assert header[32] == TARGETS[targets]
    assert (manifest.backend, manifest.backend_version, manifest.precision) == ("tensorrt-rtx", installed, precision)
    facts = manifest.build
    assert facts is not None
    assert (facts.tensorrt_version, facts.os, facts.machine) == (installed, "Linux", "x86_64")
    assert (facts.optimization_level, facts.workspace_bytes) == (3, None)
    assert (facts.version_compatible, facts.hardware_compatible) == (False, False)
    assert ",".join(facts.compute_capabilities) == targets


@pytest.mark.parametrize(
    ("family", "precision"),
    [
        ("tiny", "fp16"),
        ("omni-tiny", "fp16"),
        ("omni-tiny", "bf16"),
        pytest.param("tiny", "bf16", marks=pytest.mark.long),
    ],
)
def test_every_component_becomes_an_engine(
    tmp_path: Path, synthetic_checkpoint: Maker, omni_checkpoint: Maker, family: str, precision: str
) -> None:
    make = omni_checkpoint if family == "omni-tiny" else synthetic_checkpoint
    built = build("--checkpoint", make("tiny", 0), tmp_path / "engines", "--precision", precision, *SIZES)
    assert tuple(sorted(built)) == FAMILIES[family]
    for component, manifest in built.items():
        check_engine(tmp_path / "engines" / component, manifest, precision, "portable")
        dtypes = {info.name: info.dtype for info in (*manifest.inputs, *manifest.outputs)}
        if component == "code2wav":
            assert (dtypes["codes"], dtypes["waveform"]) == ("int64", "float32")
            continue
        assert dtypes["past_key_0"] == dtypes["present_value_1"] == DTYPES[precision]
        fed = "float32" if manifest.component == "talker" else DTYPES[precision]  # the Talker's rows are summed in fp32
        assert dtypes["inputs_embeds"] == fed
        capacity = manifest.limits["max_kv_cache_capacity"]
        assert next(info for info in manifest.inputs if info.name == "past_key_0").shape[2] == capacity
        assert manifest.max_new_positions("generation") == (8 if component == "code_predictor" else 1)


def test_an_engine_carries_each_of_its_targets(tmp_path: Path) -> None:
    onnx, flags = (
        tiny_exports.write_code_predictor(tmp_path / "onnx"),
        ["--precision=fp32", "--computeCapabilities=8.9, 8.6"],
    )
    (manifest,) = build("--onnxDir", onnx, tmp_path / "code_predictor", *flags).values()
    check_engine(tmp_path / "code_predictor", manifest, "fp32", "8.6,8.9")
    assert manifest.inputs[0].dtype == "float32"
