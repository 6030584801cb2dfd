"""The kernels at the sizes of a Qwen3-TTS frame, and the same work in PyTorch.

A workload is prepared once, over arrays that host and device share, and then enqueued again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows

GROUPS, CODEBOOK, WIDTH = 16, 2048, 1024
TALKER, THINKER = 3072, 152_064
DRAFTS = 2
SAMPLED = FilterParameters(0.9, 50, 0.8)

Copy = Callable[[np.ndarray], np.ndarray]  # into shared memory
Reference = Callable[[Any], Callable[[], object]]  # torch → the work


@dataclass(frozen=True, slots=True)
class Workload:
    """One operation at one size.

    Attributes:
        name: the operation.
        size: for people.
        size_bytes: what it must at least read and write.
        run: makes the call.
        reference: the same work in PyTorch; None where it has no counterpart there.
    """

    name: str
    size: str
    size_bytes: int
    run: Callable[[NativeKernels], None]
    reference: Reference | None


class _Rows:
    """What operations over rows share: filters, noise and outputs."""

    def __init__(self, copy: Copy, rows: int, vocabulary: int) -> None:
        packed = FilterRows.pack([SAMPLED] * rows)
        self.filters = FilterRows(copy(packed.temperature), copy(packed.top_k), copy(packed.top_p))
        self.seeds = copy(np.arange(rows, dtype=np.uint64))
        self.streams = copy(stream(Purpose.DRAFT, np.full(rows, 2), np.ones(rows, np.int64)))
        self.frames = copy(np.zeros(rows, np.uint32))
        self.logits = copy(np.zeros((rows, vocabulary), np.float32))
        self.probabilities = copy(np.zeros((rows, vocabulary), np.float32))
        self.codes = copy(np.zeros(rows, np.int64))
        self.errors = copy(np.zeros(rows, np.int32))

    @property
    def noise(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.seeds, self.streams, self.frames


def workloads(copy: Copy) -> Iterator[Workload]:
    """Every operation; ``copy`` moves an array into shared memory."""
    random = np.random.default_rng(0)
    for rows in (DRAFTS, 8 * DRAFTS):
        yield from _filters_and_draws(copy, random, rows)
    for batch, dtype in ((1, np.float32), (1, ml_dtypes.bfloat16), (8, ml_dtypes.bfloat16)):
        yield from _heads(copy, random, batch, np.dtype(dtype))
    yield _talker(copy, random)
    yield _thinker(copy, random)
    yield _acceptance(copy, random)
    yield _embedding_sum(copy, random)


def _torch_filter(torch: Any, logits: Any) -> Any:
    """Temperature, top-k and top-p as PyTorch models write it; (probabilities of the k, their ids)."""
    best, ids = torch.topk(logits / SAMPLED.temperature, SAMPLED.top_k, dim=-1)
    law = torch.softmax(best, dim=-1)
    law = law * (law.cumsum(-1) - law < SAMPLED.top_p)
    return law / law.sum(-1, keepdim=True), ids


def _torch_dense(torch: Any, logits: Any) -> Any:
    law, ids = _torch_filter(torch, logits)
    return torch.zeros_like(logits).scatter_(-1, ids, law)


def _torch_draw(torch: Any, logits: Any) -> Any:
    law, ids = _torch_filter(torch, logits)
    return ids.gather(-1, torch.multinomial(law, 1))


def _filters_and_draws(copy: Copy, random: np.random.Generator, rows: int) -> Iterator[Workload]:
    logits = copy(random.normal(0, 3, (rows, CODEBOOK)).astype(np.float32))
    law = copy(random.dirichlet(np.full(CODEBOOK, 0.1), rows).astype(np.float32))
    own = _Rows(copy, rows, CODEBOOK)
    size = f"{rows} × {CODEBOOK}"

    def on_logits(work: Callable[[Any, Any], object]) -> Reference:
        def prepared(torch: Any) -> Callable[[], object]:
            values = torch.tensor(logits, device="cuda")
            return lambda: work(torch, values)

        return prepared

    def multinomial(torch: Any) -> Callable[[], object]:
        values = torch.tensor(law, device="cuda")
        return lambda: torch.multinomial(values, 1)

    yield Workload(
        "filter", size, 2 * logits.nbytes,
        lambda kernels: kernels.filter(logits, own.filters, own.probabilities, own.errors),
        on_logits(_torch_dense),
    )  # fmt: skip
    yield Workload("draw", size, law.nbytes, lambda kernels: kernels.draw(law, *own.noise, own.codes), multinomial)
    yield Workload(
        "argmax", size, logits.nbytes,
        lambda kernels: kernels.argmax(logits, own.codes, own.errors),
        on_logits(lambda torch, values: torch.argmax(values, -1)),
    )  # fmt: skip


def _heads(copy: Copy, random: np.random.Generator, batch: int, dtype: np.dtype) -> Iterator[Workload]:
    """Drafts of a batch at one depth, and the scores after them."""
    heads = copy(random.normal(0, 0.05, (DRAFTS + 1, CODEBOOK, WIDTH)).astype(dtype))
    hidden = copy(random.normal(size=(batch * (DRAFTS + 1), WIDTH)).astype(dtype))
    for name, slots in (("grouped_heads", DRAFTS), ("draft", DRAFTS), ("score", DRAFTS + 1)):
        rows = batch * slots
        own = _Rows(copy, rows, CODEBOOK)
        sources, depths = copy(np.arange(rows)), copy(np.tile(np.arange(slots), batch))
        needed = slots * CODEBOOK * WIDTH * dtype.itemsize + 2 * own.logits.nbytes

        def run(kernels: NativeKernels, name: str = name, own: _Rows = own, sources: np.ndarray = sources,
                depths: np.ndarray = depths) -> None:  # fmt: skip
            if name == "grouped_heads":
                kernels.grouped_heads(hidden, sources, depths, heads, own.logits)
            elif name == "draft":
                outputs = own.logits, own.probabilities, own.codes, own.errors
                kernels.draft(hidden, sources, depths, heads, own.filters, *own.noise, *outputs)
            else:
                outputs = own.logits, own.probabilities, own.errors
                kernels.score(hidden, sources, depths, heads, own.filters, *outputs)

        def reference(torch: Any, name: str = name, slots: int = slots) -> Callable[[], object]:
            kind = torch.float32 if dtype == np.float32 else torch.bfloat16
            weights = torch.tensor(heads[:slots].astype(np.float32), device="cuda", dtype=kind).transpose(1, 2)
            states = torch.tensor(hidden[: batch * slots].astype(np.float32), device="cuda", dtype=kind)
            states = states.reshape(batch, slots, WIDTH).transpose(0, 1).contiguous()
            then = {"draft": _torch_draw, "score": _torch_dense}.get(name)

            def work() -> object:
                logits = torch.bmm(states, weights).reshape(-1, CODEBOOK).float()
                return then(torch, logits) if then else logits

            return work

        yield Workload(name, f"batch {batch}, {rows} rows, {dtype.name}", needed, run, reference)


def _talker(copy: Copy, random: np.random.Generator) -> Workload:
    own = _Rows(copy, 1, TALKER)
    logits = copy(random.normal(0, 3, (1, TALKER)).astype(np.float32))
    seen = copy((random.random((1, TALKER)) < 0.02).astype(np.uint8))
    suppressed = copy((np.arange(TALKER) >= TALKER - 1024).astype(np.uint8))
    penalty, ban = copy(np.full(1, 1.05, np.float32)), copy(np.zeros(1, np.uint8))

    def run(kernels: NativeKernels) -> None:
        outputs = own.probabilities, own.codes, own.errors
        processors = seen, penalty, suppressed, TALKER - 1024, ban
        kernels.draw_talker(logits, *processors, own.filters, own.seeds, own.frames, *outputs)

    def reference(torch: Any) -> Callable[[], object]:
        values = torch.tensor(logits, device="cuda")
        produced, never = (torch.tensor(each.astype(bool), device="cuda") for each in (seen, suppressed))

        def work() -> object:
            scored = torch.where(values < 0, values * 1.05, values / 1.05)
            scored = torch.where(produced, scored, values).masked_fill(never, -torch.inf)
            return _torch_draw(torch, scored)

        return work

    return Workload("draw_talker", f"1 × {TALKER}", 2 * logits.nbytes + 2 * TALKER, run, reference)


def _thinker(copy: Copy, random: np.random.Generator) -> Workload:
    own = _Rows(copy, 1, 1)
    logits = copy(random.normal(0, 3, (1, THINKER)).astype(np.float32))

    def run(kernels: NativeKernels) -> None:
        kernels.sample(logits, own.filters, *own.noise, None, own.codes, own.errors)

    def reference(torch: Any) -> Callable[[], object]:
        values = torch.tensor(logits, device="cuda")
        return lambda: _torch_draw(torch, values)

    return Workload("sample", f"1 × {THINKER}", logits.nbytes, run, reference)


def _acceptance(copy: Copy, random: np.random.Generator) -> Workload:
    """One sequence, whose drafts are the most probable codes; PyTorch has no counterpart."""
    target = random.dirichlet(np.full(CODEBOOK, 0.1), DRAFTS + 1).astype(np.float32)
    drafts = target[:DRAFTS].argmax(axis=1)
    arrays = [target, target[:DRAFTS].copy(), drafts, np.zeros(1, np.int64), np.array([DRAFTS])]
    arrays += [np.zeros(1, np.uint64), np.zeros(1, np.uint32), np.ones((DRAFTS + 1, WIDTH), np.float32)]
    arrays += [np.zeros(1, np.int64), np.zeros((1, 1 << 20), np.int64), np.ones(1, np.int64)]
    arrays += [np.zeros((1, WIDTH), np.float32), np.zeros(1, np.int64), np.zeros(1, np.int64)]
    moved = [copy(each) for each in arrays]
    # The frame is long enough for a commit in every replay.
    needed = (2 * DRAFTS + 1) * CODEBOOK * 4
    return Workload(
        "accept_commit", f"{DRAFTS} drafts × {CODEBOOK}", needed, lambda kernels: kernels.accept_commit(*moved), None
    )


def _embedding_sum(copy: Copy, random: np.random.Generator) -> Workload:
    tables = [copy(random.normal(size=(CODEBOOK, WIDTH)).astype(np.float32)) for _ in range(GROUPS)]
    codes = copy(random.integers(0, CODEBOOK, (1, GROUPS)))
    feedback = copy(np.zeros((1, WIDTH), np.float32))

    def reference(torch: Any) -> Callable[[], object]:
        weights = torch.tensor(np.stack(tables), device="cuda")
        groups, ids = torch.arange(GROUPS, device="cuda"), torch.tensor(codes[0], device="cuda")
        return lambda: weights[groups, ids].sum(0)

    return Workload(
        "sum_codec_embeddings", f"{GROUPS} × {WIDTH}", (GROUPS + 1) * WIDTH * 4,
        lambda kernels: kernels.sum_codec_embeddings(tables, codes, feedback), reference,
    )  # fmt: skip
