#!/usr/bin/env python3
"""Time and memory of builds with TensorRT for RTX, which takes no GPU.

    python scripts/measure_builds.py --write docs/measurements/builds.md

Writes synthetic checkpoints (random weights), exports each, and runs ``cpspec-build`` in a process of its own per
engine, whose wall time, processor time and peak resident memory are reported. --write replaces the document's table.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from cpspec_trt.graphs.export import export_checkpoint
from cpspec_trt.synthetic.omni import write_omni_checkpoint
from cpspec_trt.synthetic.omni_spec import OMNI_SPECS
from cpspec_trt.synthetic.spec import PUBLISHED_0B6, SPECS, TtsSpec
from cpspec_trt.synthetic.tts import write_tts_checkpoint

BEGIN, END = "<!-- written by scripts/measure_builds.py -->", "<!-- end -->"
LIMITS = ("--maxBatchSize", "1", "--maxInputLen", "1024", "--optInputLen", "128", "--maxKVCacheCapacity", "4096")
CODE2WAV_LIMITS = ("--maxBatchSize", "1", "--optCodeLen", "300", "--maxCodeLen", "2000")
MB = 1e6


@dataclass(frozen=True, slots=True)
class Case:
    """One export to build in some precisions.

    Attributes:
        what: for the table.
        write: writes the checkpoint.
        component: the one to build.
        precisions: of the engines.
    """

    what: str
    write: Callable[[Path], object]
    component: str
    precisions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Build:
    """What one build took: seconds of wall clock and of the processors, bytes."""

    what: str
    precision: str
    seconds: float
    processor: float
    memory: int
    weights: int
    engine: int


def _tts(spec: TtsSpec) -> Callable[[Path], object]:
    return lambda directory: write_tts_checkpoint(directory, spec, 0)


def _omni(name: str) -> Callable[[Path], object]:
    return lambda directory: write_omni_checkpoint(directory, OMNI_SPECS[name], 0)


def _talker(name: str, layers: int) -> TtsSpec:
    """A Talker of the published width and so many layers in an otherwise tiny checkpoint."""
    published, tiny = SPECS[name], SPECS["tiny"]
    predictor = replace(PUBLISHED_0B6.code_predictor, num_hidden_layers=1)
    return replace(
        tiny,
        talker=replace(published.talker, num_hidden_layers=layers),
        mrope_section=published.mrope_section,
        code_predictor=predictor,
        dtype="BF16",
    )


CASES = (
    Case("CodePredictor (5 layers)", _tts(SPECS["real_code_predictor"]), "code_predictor", ("fp32", "fp16", "bf16")),
    Case("Talker 0.6B, 1 of 28 layers", _tts(_talker("published_0b6", 1)), "talker", ("bf16",)),
    Case("Talker 0.6B, all 28 layers", _tts(_talker("published_0b6", 28)), "talker", ("bf16",)),
    Case("Talker 1.7B, 1 of 28 layers", _tts(_talker("published_1b7", 1)), "talker", ("fp16", "bf16")),
    Case("Talker of Omni, 1 of 20 layers, 128 experts", _omni("real_talker_layer"), "talker", ("fp16", "bf16")),
    Case("Thinker of Omni, 1 of 48 layers, 128 experts", _omni("real_thinker_layer"), "thinker", ("bf16",)),
    Case(
        "code2wav of Qwen3-TTS",
        _tts(replace(SPECS["tiny"], decoder=PUBLISHED_0B6.decoder, dtype="BF16")),
        "code2wav",
        ("fp16", "bf16"),
    ),
)


def measure(case: Case) -> Iterator[Build]:
    """Build a case in each of its precisions."""
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint, root = Path(scratch) / "checkpoint", Path(scratch)
        case.write(checkpoint)
        source = export_checkpoint(checkpoint, root / "onnx", [case.component])[case.component]
        shutil.rmtree(checkpoint)
        weights = (source / "model.onnx.data").stat().st_size
        for precision in case.precisions:
            engine = root / precision / case.component
            limits = CODE2WAV_LIMITS if case.component == "code2wav" else LIMITS
            command = [
                sys.executable,
                "-m",
                "cpspec_trt.cli.build",
                "--onnxDir",
                str(source),
                "--engineDir",
                str(engine),
            ]
            command += ["--backend", "tensorrt-rtx", "--precision", precision, *limits]
            began = time.perf_counter()
            process = os.posix_spawn(command[0], command, os.environ)
            _, status, usage = os.wait4(process, 0)
            seconds = time.perf_counter() - began
            if status:
                sys.exit(f"{case.what} in {precision}: cpspec-build failed")
            size = next(engine.glob("*.engine")).stat().st_size
            processor = usage.ru_utime + usage.ru_stime
            yield Build(case.what, precision, seconds, processor, usage.ru_maxrss * 1024, weights, size)
            shutil.rmtree(engine)


def table(builds: list[Build]) -> str:
    """The builds as Markdown."""
    lines = [
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, no GPU, "
        f"TensorRT for RTX {version('tensorrt-rtx-cu13')}:\n",
        "| what | precision | seconds | processor seconds | peak memory MB | fp32 weights MB | engine MB |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {b.what} | {b.precision} | {b.seconds:.1f} | {b.processor:.1f} | {b.memory / MB:.0f} | "
        f"{b.weights / MB:.0f} | {b.engine / MB:.0f} |"
        for b in builds
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    parser.add_argument("--only", help="cases whose name contains this")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only is None or arguments.only in case.what]
    builds = []
    for case in cases:
        for build in measure(case):
            print(build, file=sys.stderr)
            builds.append(build)
    print(table(builds))
    if arguments.write is not None:
        text = arguments.write.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        tail = rest.partition(END)[2]
        arguments.write.write_text(f"{head}{BEGIN}\n{table(builds)}{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
