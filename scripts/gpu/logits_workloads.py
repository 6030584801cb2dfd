"""Logits to codes: filter, draw, argmax, the Talker's draw and the Thinker's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cpspec_trt.kernels.native import NativeKernels
from scripts.gpu.workload import CODEBOOK, Copy, Rows, Twin, Work, Workload, on_device, torch_dense, torch_draw

TALKER, THINKER = 3072, 152_064
PENALTY = 1.05


def filters_and_draws(copy: Copy, random: np.random.Generator, rows: int) -> Iterator[Workload]:
    """Filter, draw and argmax of rows over a codebook."""
    logits = copy(random.normal(0, 3, (rows, CODEBOOK)).astype(np.float32))
    law = copy(random.dirichlet(np.full(CODEBOOK, 0.1), rows).astype(np.float32))
    own = Rows(copy, rows, CODEBOOK)
    size = f"{rows} × {CODEBOOK}"

    def over(array: np.ndarray, work: Callable[[Any, Any], object], draws: bool = False) -> Twin:
        def prepare(torch: Any) -> Work:
            values = on_device(torch, array)
            return lambda: work(torch, values)

        return Twin(prepare, draws)

    yield Workload(
        "filter", size, 2 * logits.nbytes,
        lambda kernels: kernels.filter(logits, own.filters, own.probabilities, own.errors),
        over(logits, torch_dense),
    )  # fmt: skip
    yield Workload(
        "draw", size, law.nbytes,
        lambda kernels: kernels.draw(law, *own.noise, own.codes),
        over(law, lambda torch, values: torch.multinomial(values, 1), draws=True),
    )  # fmt: skip
    yield Workload(
        "argmax", size, logits.nbytes,
        lambda kernels: kernels.argmax(logits, own.codes, own.errors),
        over(logits, lambda torch, values: torch.argmax(values, -1)),
    )  # fmt: skip


def talker(copy: Copy, random: np.random.Generator) -> Workload:
    """Penalty, suppression, filter and draw of c0."""
    own = Rows(copy, 1, TALKER)
    logits = copy(random.normal(0, 3, (1, TALKER)).astype(np.float32))
    seen = copy((random.random((1, TALKER)) < 0.02).astype(np.uint8))
    suppressed = copy((np.arange(TALKER) >= TALKER - 1024).astype(np.uint8))
    penalty, ban = copy(np.full(1, PENALTY, np.float32)), copy(np.zeros(1, np.uint8))

    def run(kernels: NativeKernels) -> None:
        outputs = own.probabilities, own.codes, own.errors
        processors = seen, penalty, suppressed, TALKER - 1024, ban
        kernels.draw_talker(logits, *processors, own.filters, own.seeds, own.frames, *outputs)

    def prepare(torch: Any) -> Work:
        values = on_device(torch, logits)
        produced, never = on_device(torch, seen.astype(bool)), on_device(torch, suppressed.astype(bool))

        def work() -> object:
            scored = torch.where(values < 0, values * PENALTY, values / PENALTY)
            scored = torch.where(produced, scored, values).masked_fill(never, -torch.inf)
            return torch_draw(torch, scored)

        return work

    return Workload("draw_talker", f"1 × {TALKER}", 2 * logits.nbytes + 2 * TALKER, run, Twin(prepare, draws=True))


def thinker(copy: Copy, random: np.random.Generator) -> Workload:
    """Filter and draw of a word."""
    own = Rows(copy, 1, 1)
    logits = copy(random.normal(0, 3, (1, THINKER)).astype(np.float32))

    def run(kernels: NativeKernels) -> None:
        kernels.sample(logits, own.filters, *own.noise, None, own.codes, own.errors)

    def prepare(torch: Any) -> Work:
        values = on_device(torch, logits)
        return lambda: torch_draw(torch, values)

    return Workload("sample", f"1 × {THINKER}", logits.nbytes, run, Twin(prepare, draws=True))
