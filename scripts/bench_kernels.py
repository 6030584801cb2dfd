#!/usr/bin/env python3
"""The CPU kernels against the oracle, PyTorch and a plain read of memory: ratios within one run, one thread.

    python scripts/bench_kernels.py                                        PyTorch is compared where it is installed
    python scripts/bench_kernels.py --write docs/measurements/kernels.md   replaces the table of the document

The implementations take turns, the clock is the thread's own, and the best time of each counts, so that what else the
machine does matters little.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy reads them

import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cpspec_trt.kernels.loading import default_kernels  # noqa: E402
from cpspec_trt.kernels.native import NativeKernels  # noqa: E402
from cpspec_trt.kernels.oracle import OracleKernels  # noqa: E402
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows, Kernels  # noqa: E402

CODEBOOK, WIDTH, HEADS = 2048, 1024, 15
TEMPERATURE, TOP_K, TOP_P = 0.9, 50, 0.8
ROUNDS = 30
BEGIN, END = "<!-- cpu: written by scripts/bench_kernels.py -->", "<!-- end of cpu -->"

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: times in microseconds and how many times as fast the kernels are."""

    what: str
    ours: float
    against: str
    theirs: float
    goal: float | None

    def cells(self) -> list[str]:
        goal = f"≥ {self.goal:g}" if self.goal is not None else ""
        ratio = f"{self.theirs / self.ours:.2g}" if self.theirs < 10 * self.ours else f"{self.theirs / self.ours:.0f}"
        return [self.what, f"{self.ours:.1f}", self.against, f"{self.theirs:.1f}", ratio, goal]


def best_times(works: dict[str, Work], repeats: int) -> dict[str, float]:
    """The best time of each work in microseconds, over rounds in which all take their turn."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, work in works.items():
            began = time.thread_time()
            for _ in range(repeats):
                work()
            best[name] = min(best[name], (time.thread_time() - began) / repeats * 1e6)
    return best


def draw_work(kernels: Kernels, logits: np.ndarray, top_k: int = TOP_K, top_p: float = TOP_P) -> Work:
    """Filter and draw of every row, into buffers bound once."""
    rows = len(logits)
    filters = FilterRows.pack([FilterParameters(TEMPERATURE, top_k, top_p)] * rows)
    seeds, streams, frames = np.arange(rows, dtype=np.uint64), *np.ones((2, rows), np.uint32)
    probabilities = np.empty(logits.shape, np.float32)
    codes, errors = np.empty(rows, np.int64), np.empty(rows, np.int32)
    return lambda: kernels.sample(logits, filters, seeds, streams, frames, probabilities, codes, errors)


def torch_works(logits: np.ndarray) -> dict[str, Work]:
    """The same in PyTorch, with top-p and without; empty where PyTorch is not installed."""
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed here: it is left out.", file=sys.stderr)
        return {}
    torch.set_num_threads(1)
    scores = torch.from_numpy(logits)

    def without_top_p() -> Any:
        values, codes = torch.topk(scores / TEMPERATURE, TOP_K)
        return codes.gather(-1, torch.multinomial(torch.softmax(values, -1), 1))

    def with_top_p() -> Any:
        values, codes = torch.topk(scores / TEMPERATURE, TOP_K)
        law = torch.softmax(values, -1)
        law[law.cumsum(-1) - law >= TOP_P] = 0
        return codes.gather(-1, torch.multinomial(law, 1))

    def quiet(work: Work) -> Work:
        def run() -> None:
            with torch.inference_mode():
                work()

        return run

    return {
        "PyTorch topk, softmax, top-p, multinomial": quiet(with_top_p),
        "PyTorch topk, softmax, multinomial (no top-p)": quiet(without_top_p),
    }


def draw_rows(native: NativeKernels, rows: int) -> list[Row]:
    logits = np.random.default_rng(rows).normal(0, 3, (rows, CODEBOOK)).astype(np.float32)
    works = {"ours": draw_work(native, logits), "oracle": draw_work(OracleKernels(), logits), **torch_works(logits)}
    best = best_times(works, max(200 // rows, 5))
    what = f"filter and draw, {rows} row{'s' if rows > 1 else ''} of {CODEBOOK}"
    goals = {"oracle": 20.0, "PyTorch topk, softmax, top-p, multinomial": 3.0} if rows == 1 else {}
    return [Row(what, best["ours"], name, best[name], goals.get(name)) for name in works if name != "ours"]


def selection_rows(native: NativeKernels) -> list[Row]:
    """One row with other parameters, beside those of the first line."""
    logits = np.random.default_rng(1).normal(0, 3, (1, CODEBOOK)).astype(np.float32)
    settings = [(1, TOP_P), (500, TOP_P), (0, TOP_P), (TOP_K, 1.0), (0, 1.0)]
    usual = f"k {TOP_K}, p {TOP_P}"
    works = {usual: draw_work(native, logits)}
    works |= {f"k {top_k or 'off'}, p {top_p}": draw_work(native, logits, top_k, top_p) for top_k, top_p in settings}
    best = best_times(works, 200)
    what = f"filter and draw, 1 row of {CODEBOOK}"
    return [Row(f"{what}, {name}", best[name], usual, best[usual], None) for name in works if name != usual]


def heads_rows(native: NativeKernels, dtype: str) -> list[Row]:
    """Every head once, as a frame's codes need them, beside the fastest way numpy can read the same bytes."""
    random = np.random.default_rng(0)
    heads = random.standard_normal((HEADS, CODEBOOK, WIDTH), dtype=np.float32).astype(dtype)
    hidden = random.standard_normal((HEADS, WIDTH), dtype=np.float32)
    words = heads.reshape(-1).view(np.uint64)
    rows = []
    for sharers in (1, 2, 3, 4, 8):
        head_rows = np.tile(np.arange(HEADS), sharers)
        hidden_rows = np.arange(len(head_rows)) % HEADS
        logits = np.empty((len(head_rows), CODEBOOK), np.float32)

        def ours(rows: np.ndarray = hidden_rows, head_rows: np.ndarray = head_rows, out: np.ndarray = logits) -> None:
            native.grouped_heads(hidden, rows, head_rows, heads, out)

        best = best_times({"ours": ours, "or": lambda: np.bitwise_or.reduce(words), "max": words.max}, 1)
        what = f"{HEADS} heads of {CODEBOOK} x {WIDTH} {dtype}, {sharers} row{'s' if sharers > 1 else ''} each"
        read = min(best["or"], best["max"])
        against = f"plain read at {heads.nbytes / read / 1e3:.1f} GB/s"
        rows.append(Row(what, best["ours"], against, read, 0.8 if sharers == 1 and dtype == "float32" else None))
    return rows


def processor() -> str:
    """The processor's name where Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def written_into(document: str, lines: list[str]) -> str:
    """The document with its table replaced."""
    before, rest = document.split(BEGIN)
    return "\n".join([before + BEGIN, *lines, END + rest.split(END)[1]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="DOCUMENT")
    parser.add_argument("--level", help="another instruction set than the best: avx512, avx2, baseline, neon")
    arguments = parser.parse_args()
    native = default_kernels()
    if arguments.level:
        native.library.use_level(arguments.level)
    rows = [
        *draw_rows(native, 1),
        *draw_rows(native, 64),
        *selection_rows(native),
        *heads_rows(native, "float32"),
        *heads_rows(native, "float16"),
    ]
    head = ["what", "µs", "against", "µs", "times as fast", "goal"]
    lines = [f"{processor()}, `{native.library.implementation}`, one thread:", ""]
    lines += ["| " + " | ".join(cells) + " |" for cells in (head, ["---", "--:", "---", "--:", "--:", "--:"])]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    print("\n".join(lines))
    if arguments.write:
        arguments.write.write_text(written_into(arguments.write.read_text(), lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
