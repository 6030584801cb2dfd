"""TensorRT engines that cannot run here: ``cpspec-infer`` says so in one line, before TensorRT is asked.

The GPU is the simulated one of ``tests/simulation``, and so are the engines; a real engine of TensorRT for RTX, which
builds without a GPU, is refused for the lack of one.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.builder import profiles
from cpspec_trt.builder.build import build_checkpoint, build_engine
from cpspec_trt.builder.engine_options import EngineOptions
from cpspec_trt.builder.profiles import COMPONENTS, BuildLimits
from cpspec_trt.cli.build import main as build_command
from cpspec_trt.graphs.export import export_checkpoint
from tests.builder import tiny_exports
from tests.cli import runs
from tests.cli.runs import (
    OmniRun,
    TtsRun,
    assert_one_clear_line,
    command,
    infer_here,
    narrowed,
    omni_document,
    tts_document,
)
from tests.conftest import ROOT, Maker
from tests.simulation.simulation import simulated

BACKENDS = ("tensorrt", "tensorrt-rtx")
LIMITS = dict.fromkeys(COMPONENTS, BuildLimits(max_input_len=64, max_batch_size=1, max_kv_cache_capacity=128))
Simulated = dict[str, Any]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, synthetic_checkpoint: Maker) -> Callable[[str, int], Path]:
    """Simulated engines by backend and seed of the checkpoint; built once."""
    root = tmp_path_factory.mktemp("engines")

    def make(backend: str, seed: int) -> Path:
        directory = root / f"{backend}-{seed}"
        if not directory.exists():
            with simulated():
                checkpoint = synthetic_checkpoint("tiny", seed)
                build_checkpoint(checkpoint, directory, LIMITS, backend, options=EngineOptions(precision="fp32"))
        return directory

    return make


def unchanged(engines: Path, other: Path) -> None:
    """The fault is the machine's."""


def cut(engines: Path, other: Path) -> None:
    path = engines / "talker" / "llm.engine"
    os.truncate(path, path.stat().st_size // 2)


def exchange_engines(engines: Path, other: Path) -> None:
    talker, predictor = (engines / name / "llm.engine" for name in ("talker", "code_predictor"))
    talker.rename(engines / "aside")
    predictor.rename(talker)
    (engines / "aside").rename(predictor)


def exchange_directories(engines: Path, other: Path) -> None:
    shutil.rmtree(engines / "talker")
    shutil.copytree(engines / "code_predictor", engines / "talker")


def lose_manifest(engines: Path, other: Path) -> None:
    (engines / "code_predictor" / "engine_manifest.json").unlink()


def edit_manifest(engines: Path, other: Path) -> None:
    """Pretend to a wider profile than the engine has."""
    path = engines / "talker" / "engine_manifest.json"
    value = json.loads(path.read_text())
    for name in ("past_key_0", "past_value_0"):
        value["profiles"]["generation"][name]["max"][0] = 64
    path.write_text(json.dumps(value))


def mix_checkpoints(engines: Path, other: Path) -> None:
    shutil.rmtree(engines / "code_predictor")
    shutil.copytree(other / "code_predictor", engines / "code_predictor")


@dataclass(frozen=True)
class Wrong:
    """One way to be wrong: what is done to the engines, to the machine, and what the message must hold."""

    name: str
    parts: tuple[str, ...]
    change: Callable[[Path, Path], None] = unchanged
    machine: Simulated = field(default_factory=dict)
    backends: tuple[str, ...] = BACKENDS
    pasteable: bool = True  # whether the line ends with the command that builds this engine again


CASES = (
    Wrong(
        "other version",
        ("talker: was built with tensorrt 11.4.0.12, here is 11.5.0.3", "rebuild it with"),
        machine={"tensorrt_version": "11.5.0.3"},
        backends=("tensorrt",),
    ),
    Wrong(
        "other compute capability",
        ("talker: was built for compute capability 9.0; simulated GPU has compute capability 8.6", "rebuild it with"),
        machine={"capability": (8, 6)},
        backends=("tensorrt",),
    ),
    Wrong(
        "compute capability before those of a portable engine",
        ("talker: was built for compute capability 8.0 and later; simulated GPU has compute capability 7.5",
         "rebuild it with", "--backend tensorrt --max"),
        machine={"capability": (7, 5)},
        backends=("tensorrt-rtx",),
    ),
    Wrong("truncated file", ("talker/llm.engine: has ", "bytes, the manifest says", "rebuild it with"), cut),
    Wrong("swapped engines", ("talker/llm.engine: has ", "bytes, the manifest says"), exchange_engines),
    Wrong(
        "swapped component",
        ("talker/config.json: field 'model' is 'qwen3_tts_code_predictor', which is not", "pass its directory"),
        exchange_directories,
        pasteable=False,
    ),
    Wrong(
        "no driver",
        ("talker: is an engine of tensorrt", "no GPU can be used: the NVIDIA driver is missing or older",
         "--backend onnxruntime --max"),
        machine={"driver": False},
    ),
    Wrong(
        "no device",
        ("talker: is an engine of tensorrt", "the driver finds no CUDA device", "--backend onnxruntime --max"),
        machine={"devices": 0},
    ),
    Wrong(
        "no memory",
        ("talker: takes more than 1 MB of device memory, simulated GPU has 0 MB free; end other programs on it",),
        machine={"memory": 1 << 18},
    ),
    Wrong(
        "manifest missing",
        ("code_predictor/engine_manifest.json: the engine manifest (build the engine with cpspec-build) does not ex",),
        lose_manifest,
        pasteable=False,
    ),
    Wrong(
        "manifest edited",
        ("talker/engine_manifest.json: was changed after the build", "restore it, or rebuild"),
        edit_manifest,
        pasteable=False,
    ),
    Wrong(
        "other checkpoint",
        ("code_predictor and ", "talker come from different checkpoints; build all components together with cpspec-b",),
        mix_checkpoints,
        pasteable=False,
    ),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the simulation is."""
    monkeypatch.setattr(runs, "infer", infer_here)


@pytest.mark.parametrize(
    ("case", "backend"),
    [pytest.param(case, backend, id=f"{case.name}-{backend}") for case in CASES for backend in case.backends],
)
def test_an_engine_that_cannot_run_here_is_one_clear_line(
    case: Wrong, backend: str, built: Callable[[str, int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = Path(shutil.copytree(built(backend, 54), tmp_path / "engines"))
    case.change(engines, built(backend, 55))
    run = TtsRun(tmp_path, engines / "talker")
    with simulated(**case.machine) as simulation:
        for module in (simulation.tensorrt, simulation.tensorrt_rtx):
            monkeypatch.setattr(module, "Runtime", _never)
        result = run(tts_document(), "--cpSpecVerifySize", 3)
    assert_one_clear_line(result, 1, *case.parts)
    assert run.left_nothing()
    if case.pasteable:
        assert_pasteable(result.stderr, engines)


def test_an_engine_of_a_narrower_profile_refuses_a_window_by_its_own_command(
    tmp_path: Path, synthetic_checkpoint: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(profiles._BOUNDS, "max_verify_rows", (1, 8))  # a builder that does not widen
    narrow = {name: replace(limits, max_verify_rows=1) for name, limits in LIMITS.items()}
    engines = tmp_path / "engines"
    run = TtsRun(tmp_path, engines / "talker")
    with simulated():
        options = EngineOptions(precision="fp32")
        build_checkpoint(synthetic_checkpoint("tiny", 54), engines, narrow, "tensorrt", options=options)
        result = run(tts_document(), "--cpSpecVerifySize", 3, "--requireSpeculation")
    reason = "the engine's generation profile accepts 1 new positions, the verify window is 3; rebuild it with"
    rebuild = f"cpspec-build --onnxDir ONNX_DIR --engineDir {engines / 'code_predictor'} --backend tensorrt"
    assert_one_clear_line(result, 1, f"speculation is required but does not run: {reason} {rebuild}", "VerifyRows 8")
    assert run.left_nothing()


def test_an_engine_with_the_manifest_of_another_build_is_refused_when_it_is_open(
    built: Callable[[str, int], Path], tmp_path: Path
) -> None:
    engines = Path(shutil.copytree(built("tensorrt", 54), tmp_path / "engines"))
    narrowed(engines)
    with simulated():
        result = TtsRun(tmp_path, engines / "talker")(tts_document())
    profile = "code_predictor/llm.engine: generation profile of inputs_embeds: the engine has"
    rebuild = f"rebuild it with cpspec-build --onnxDir ONNX_DIR --engineDir {engines / 'code_predictor'}"
    assert_one_clear_line(result, 1, profile, "its manifest", rebuild)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_engines_speak_where_nothing_is_wrong(
    backend: str, built: Callable[[str, int], Path], tmp_path: Path
) -> None:
    with simulated():
        result = TtsRun(tmp_path, built(backend, 54) / "talker")(tts_document(max_audio_length=2))
    assert result.returncode == 0, result.stderr


def test_real_engines_are_refused_for_the_lack_of_a_gpu(tmp_path: Path) -> None:
    write = {"talker": tiny_exports.write_talker, "code_predictor": tiny_exports.write_code_predictor}
    engines = tmp_path / "engines"
    for component, export in write.items():
        exported = export(tmp_path / "onnx" / component)
        build_engine(exported, engines / component, LIMITS[component], "tensorrt-rtx", EngineOptions(precision="fp16"))
        assert (engines / component / "llm.engine").read_bytes().startswith(b"vtrt")
    (tmp_path / "input.json").write_text(json.dumps(tts_document()))
    words = command("--inputFile", tmp_path / "input.json", "--talkerEngineDir", engines / "talker")
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}  # also where there is a GPU
    result = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert_one_clear_line(result, 1, "talker: is an engine of tensorrt-rtx: no GPU can be used", "rebuild it with")
    assert_pasteable(result.stderr, engines)


@pytest.mark.parametrize(
    ("machine", "part"),
    [
        ({"driver": False}, "thinker: is an engine of tensorrt: no GPU can be used"),
        ({"tensorrt_version": "12.0.0.1"}, "thinker: was built with tensorrt 11.4.0.12, here is 12.0.0.1; rebuild it"),
    ],
)
def test_a_thinker_is_compared_with_the_machine_first(
    machine: Simulated, part: str, omni_checkpoint: Maker, tmp_path: Path
) -> None:
    exported = export_checkpoint(omni_checkpoint("tiny", 1), tmp_path / "onnx", ["thinker"])["thinker"]
    run = OmniRun(tmp_path, tmp_path)
    with simulated():
        options = EngineOptions(precision="fp32")
        build_engine(exported, tmp_path / "thinker", LIMITS["thinker"], "tensorrt", options)
    with simulated(**machine):
        result = run(omni_document(), audio=False)
    assert_one_clear_line(result, 1, part)
    assert run.left_nothing()


def _never(*arguments: object) -> None:
    raise AssertionError("a TensorRT runtime was made for an engine that cannot run")


def assert_pasteable(line: str, engines: Path) -> None:
    """A message ends with a command that the command line takes, for the engine that was refused."""
    program, *words = shlex.split(line[line.index("cpspec-build --onnxDir") :])
    with build_command.make_context(program, words) as context:
        given = context.params
    assert given["engine_dir"] == engines / "talker"
    assert given["max_batch_size"] == 1
    assert given["max_kv_cache_capacity"] == 128
    assert given["backend"] in (*BACKENDS, "onnxruntime")


def test_verification_reads_every_byte_of_an_engine_and_needs_no_gpu(
    built: Callable[[str, int], Path], tmp_path: Path
) -> None:
    engines = Path(shutil.copytree(built("tensorrt-rtx", 54), tmp_path / "engines"))
    assert verify(engines).returncode == 0
    path = engines / "code_predictor" / "llm.engine"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    result = verify(engines)
    assert_one_clear_line(result, 1, f"{path}: its content is not what was built (sha256 differs); rebuild it with")


def verify(engines: Path) -> runs.Result:
    words = [sys.executable, "-m", "cpspec_trt.cli.build", "--verify", "--engineDir", str(engines)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
