#!/usr/bin/env python3
"""The CPU engines at published sizes with random weights: code2wav, int8 against fp32, memory and loading.

    python scripts/measure_cpu.py DIRECTORY                                  engines are built there once
    python scripts/measure_cpu.py DIRECTORY --write docs/measurements/cpu.md   replaces the tables of the document

What is compared takes turns in one process, the clock is that of the processor, and the best time of each counts, so
that what else the machine does matters little. Loading and memory are measured in a process of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cpspec_trt.bench.synthetic import synthetic_engines  # noqa: E402
from cpspec_trt.builder.build import build_checkpoint  # noqa: E402
from cpspec_trt.builder.engine_options import EngineOptions  # noqa: E402
from cpspec_trt.builder.profiles import CODE2WAV, COMPONENTS, BuildLimits  # noqa: E402
from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine  # noqa: E402
from cpspec_trt.files.engine_config import (  # noqa: E402
    AnyCode2WavConfig,
    Code2WavConfig,
    CodePredictorConfig,
    OmniCode2WavConfig,
    read_config_of,
)
from cpspec_trt.files.sidecars import read_code_predictor_sidecars  # noqa: E402
from cpspec_trt.stages.code2wav import Code2WavStage  # noqa: E402
from cpspec_trt.stages.code_predictor import CodePredictorStage  # noqa: E402
from cpspec_trt.synthetic.spec import SPECS  # noqa: E402
from cpspec_trt.synthetic.tts import write_tts_checkpoint  # noqa: E402
from scripts.bench_kernels import processor  # noqa: E402

BEGIN, END = "<!-- written by scripts/measure_cpu.py -->", "<!-- end of the tables -->"
FRAME_MS = 80.0
CHUNKS = (1, 4, 25)
ROWS = (1, 2, 3, 4, 6, 8)
ROUNDS = 25
DECODERS = {"0.6B": "Qwen3-TTS", "Omni": "Qwen3-Omni"}  # by the name of a synthetic configuration
READ = "read"  # instead of an engine: the file of weights, into memory of its own

Work = Callable[[], object]


def best_ms(works: Mapping[str, Work], clock: Callable[[], float], rounds: int) -> dict[str, float]:
    """The best time of each work in milliseconds, over rounds in which all take their turn."""
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()
    for _ in range(rounds):
        for name, work in works.items():
            began = clock()
            work()
            best[name] = min(best[name], (clock() - began) * 1e3)
    return best


def decoder_config(name: str, directory: Path) -> AnyCode2WavConfig:
    if name == "Omni":
        return read_config_of(directory, OmniCode2WavConfig)
    return read_config_of(directory, Code2WavConfig)


def code2wav_table(engines: Path) -> list[str]:
    """Processor time per frame. Over two threads it holds the time that one of them waits for the other."""
    lines = [
        "| decoder | threads | frames a pass | processor ms a frame | of a frame's 80 ms |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, label in DECODERS.items():
        directory = synthetic_engines(name, "code2wav", engines / f"{name}-code2wav", 8, 1) / CODE2WAV
        for threads, clock in ((1, time.thread_time), (2, time.process_time)):
            stage = Code2WavStage(OnnxRuntimeEngine(directory, threads), decoder_config(name, directory))
            codes = np.random.default_rng(0).integers(2048, size=(max(CHUNKS), 16))
            works = {str(chunk): partial(stage.decode, codes[:chunk], chunk) for chunk in CHUNKS}
            for chunk, found in best_ms(works, clock, 5).items():
                ms = found / int(chunk)
                lines.append(f"| {label} | {threads} | {chunk} | {ms:.1f} | {ms / FRAME_MS:.2f} |")
    return lines


def predictor(engines: Path) -> CodePredictorStage:
    directory = engines / "code_predictor"
    config = read_config_of(directory, CodePredictorConfig)
    tables = read_code_predictor_sidecars(directory, config)
    embedding = np.zeros((4096, config.talker_hidden_size), np.float32)
    return CodePredictorStage(OnnxRuntimeEngine(directory, 1), config, tables, embedding)


def code_predictor_engines(engines: Path) -> dict[str, Path]:
    """A CodePredictor of the published size, in fp32 and with int8 weights."""
    roots = {precision: engines / f"code-predictor-{precision}" for precision in ("fp32", "int8")}
    checkpoint = engines / "code-predictor-checkpoint"
    if not checkpoint.exists():
        write_tts_checkpoint(checkpoint, SPECS["real_code_predictor"], 1)
    limits = dict.fromkeys(COMPONENTS, BuildLimits(max_batch_size=1))
    for precision, root in roots.items():
        if not root.exists():
            build_checkpoint(checkpoint, root, limits, "onnxruntime", options=EngineOptions(precision=precision))
    return roots


def int8_table(roots: Mapping[str, Path]) -> list[str]:
    """One pass of the CodePredictor without its heads, one thread."""
    stages = {precision: predictor(root) for precision, root in roots.items()}
    for stage in stages.values():
        stage.start_frame(np.ones((1, stage.talker_hidden_size), np.float32), np.array([1]))
    lines = ["| new positions | fp32 ms | int8 ms | times as fast | goal |", "|--:|--:|--:|--:|--:|"]
    for rows in ROWS:
        codes = np.arange(rows)[None]
        works = {name: partial(stage.verify, codes) for name, stage in stages.items()}
        best = best_ms(works, time.thread_time, ROUNDS)
        goal = "≥ 3" if rows == 1 else ""
        ratio = best["fp32"] / best["int8"]
        lines.append(f"| {rows} | {best['fp32']:.2f} | {best['int8']:.2f} | {ratio:.2f} | {goal} |")
    return lines


def memory_table(engines: Mapping[str, Path]) -> list[str]:
    lines = [
        "| engine | MB of weights | peak memory / weights | goal | load, processor s | reading them | ratio | goal |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, directory in engines.items():
        opened = [child(directory, "open") for _ in range(3)]
        read = min(child(directory, READ)["seconds"] for _ in range(3))
        seconds, peak = (min(found[key] for found in opened) for key in ("seconds", "peak"))
        weights = opened[0]["weights"]
        times = f"{seconds:.2f} | {read:.2f} | {seconds / read:.1f} | ≤ 2"
        lines.append(f"| {name} | {weights / 1e6:.0f} | {peak / weights:.2f} | ≤ 1.2 | {times} |")
    return lines


def child(directory: Path, what: str) -> dict[str, float]:
    found = subprocess.run([sys.executable, __file__, str(directory), "--child", what], capture_output=True, check=True)
    return dict(json.loads(found.stdout))


def run_child(directory: Path, what: str) -> None:
    """Open an engine, or read its weights; print processor seconds, weights, and peak bytes above the start."""
    data = next(directory.glob("*.onnx.data"))
    before, began = status_bytes("VmRSS"), time.process_time()
    kept = np.fromfile(data, np.uint8) if what == READ else OnnxRuntimeEngine(directory, 1)
    seconds = time.process_time() - began
    print(json.dumps({"seconds": seconds, "peak": status_bytes("VmHWM") - before, "weights": data.stat().st_size}))
    del kept


def status_bytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) * 1024


def written_into(document: str, lines: Sequence[str]) -> str:
    """The document with its tables replaced."""
    before, rest = document.split(BEGIN)
    return "\n".join([before + BEGIN, *lines, END + rest.split(END)[1]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="engines are built here, 3 GB")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_child(given.directory, given.child)
        return 0
    given.directory.mkdir(parents=True, exist_ok=True)
    roots = code_predictor_engines(given.directory)
    lines = [f"{processor()}, {os.cpu_count()} cores, random weights of published sizes:", "", "### code2wav", ""]
    lines += code2wav_table(given.directory)
    lines += ["", "### int8 against fp32, one pass of the CodePredictor", "", *int8_table(roots)]
    held = {f"CodePredictor {name}": root / "code_predictor" for name, root in roots.items()}
    held |= {f"code2wav, {label}": given.directory / f"{name}-code2wav" / CODE2WAV for name, label in DECODERS.items()}
    lines += ["", "### Memory and loading", "", *memory_table(held)]
    print("\n".join(lines))
    if given.write:
        given.write.write_text(written_into(given.write.read_text(encoding="utf-8"), lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
