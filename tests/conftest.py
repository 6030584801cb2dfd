"""Engines shared by many tests: built once per test run, also when several workers run it."""

from __future__ import annotations

import fcntl
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cpspec_trt.builder.build import build_checkpoint
from cpspec_trt.builder.profiles import COMPONENTS, BuildLimits
from cpspec_trt.synthetic.omni import write_omni_checkpoint
from cpspec_trt.synthetic.omni_spec import OMNI_SPECS
from cpspec_trt.synthetic.spec import SPECS
from cpspec_trt.synthetic.tts import write_tts_checkpoint

# A run that a script started in the background ignores SIGINT, and so would every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]
DEMO_CHECKPOINT = ROOT / "assets" / "demo-voice" / "checkpoint"
TEST_LIMITS = BuildLimits(max_input_len=256, max_batch_size=4, max_kv_cache_capacity=512, max_code_len=400)

Maker = Callable[[str, int], Path]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def shared_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "popen-" in base.name else base


def write_once(directory: Path, write: Callable[[Path], object]) -> Path:
    """The directory, written by the first worker that asks for it."""
    with _locked(directory.with_name(directory.name + ".lock")):
        if not directory.is_dir():
            write(directory)
    return directory


def _build_once(directory: Path, checkpoint: Path) -> Path:
    limits = dict.fromkeys(COMPONENTS, TEST_LIMITS)
    return write_once(directory, lambda new: build_checkpoint(checkpoint, new, limits, "onnxruntime"))


@pytest.fixture(scope="session")
def synthetic_checkpoint(shared_directory: Path) -> Maker:
    """Write a synthetic checkpoint by spec name and seed; returns its directory."""

    def make(spec: str, seed: int) -> Path:
        directory = shared_directory / f"checkpoint-{spec}-{seed}"
        return write_once(directory, lambda new: write_tts_checkpoint(new, SPECS[spec], seed))

    return make


@pytest.fixture(scope="session")
def omni_checkpoint(shared_directory: Path) -> Maker:
    """Write a synthetic Qwen3-Omni checkpoint by spec name and seed; returns its directory."""

    def make(spec: str, seed: int) -> Path:
        directory = shared_directory / f"omni-checkpoint-{spec}-{seed}"
        return write_once(directory, lambda new: write_omni_checkpoint(new, OMNI_SPECS[spec], seed))

    return make


@pytest.fixture(scope="session")
def synthetic_engines(shared_directory: Path, synthetic_checkpoint: Maker) -> Maker:
    """Build the engines of a synthetic checkpoint by spec name and seed; returns their root."""

    def make(spec: str, seed: int) -> Path:
        return _build_once(shared_directory / f"engines-{spec}-{seed}", synthetic_checkpoint(spec, seed))

    return make


@pytest.fixture(scope="session")
def demo_engines(shared_directory: Path) -> Path:
    """Engines of the demo voice, the trained checkpoint in assets/."""
    return _build_once(shared_directory / "engines-demo", DEMO_CHECKPOINT)


@pytest.fixture(scope="session")
def omni_engines(shared_directory: Path, omni_checkpoint: Maker) -> Maker:
    """Build the engines of a synthetic Qwen3-Omni checkpoint by spec name and seed; returns their root."""

    def make(spec: str, seed: int) -> Path:
        return _build_once(shared_directory / f"omni-engines-{spec}-{seed}", omni_checkpoint(spec, seed))

    return make
