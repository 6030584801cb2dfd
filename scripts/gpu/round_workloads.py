"""A round: heads, draft, score, greedy acceptance and rejection, the commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cpspec_trt.kernels.native import NativeKernels
from scripts.gpu.workload import (
    CODEBOOK,
    DRAFTS,
    WIDTH,
    Copy,
    Rows,
    Twin,
    Work,
    Workload,
    on_device,
    steps,
    torch_dense,
    torch_draw,
)

MAX_GROUPS = 256  # of a frame: room for many commits
ROW_BYTES = CODEBOOK * 4


def heads(copy: Copy, random: np.random.Generator, batch: int, dtype: np.dtype) -> Iterator[Workload]:
    """Drafts of a batch at one depth, and the scores after them."""
    weights = copy(random.normal(0, 0.05, (DRAFTS + 1, CODEBOOK, WIDTH)).astype(dtype))
    hidden = copy(random.normal(size=(batch * (DRAFTS + 1), WIDTH)).astype(dtype))
    for name, slots in (("grouped_heads", DRAFTS), ("draft", DRAFTS), ("score", DRAFTS + 1)):
        rows = batch * slots
        own = Rows(copy, rows, CODEBOOK)
        sources, depths = copy(np.arange(rows)), copy(np.tile(np.arange(slots), batch))
        needed = slots * CODEBOOK * WIDTH * dtype.itemsize + 2 * own.logits.nbytes

        def run(kernels: NativeKernels, name: str = name, own: Rows = own, sources: np.ndarray = sources,
                depths: np.ndarray = depths) -> None:  # fmt: skip
            if name == "grouped_heads":
                kernels.grouped_heads(hidden, sources, depths, weights, own.logits)
            elif name == "draft":
                outputs = own.logits, own.probabilities, own.codes, own.errors
                kernels.draft(hidden, sources, depths, weights, own.filters, *own.noise, *outputs)
            else:
                outputs = own.logits, own.probabilities, own.errors
                kernels.score(hidden, sources, depths, weights, own.filters, *outputs)

        def prepare(torch: Any, name: str = name, slots: int = slots) -> Work:
            matrices = on_device(torch, weights[:slots]).transpose(1, 2)
            states = on_device(torch, hidden[: batch * slots])
            states = states.reshape(batch, slots, WIDTH).transpose(0, 1).contiguous()
            then = {"draft": torch_draw, "score": torch_dense}.get(name)

            def work() -> object:
                logits = torch.bmm(states, matrices).reshape(-1, CODEBOOK).float()
                return then(torch, logits) if then else logits

            return work

        yield Workload(name, f"batch {batch}, {rows} rows, {dtype.name}", needed, run, Twin(prepare, name == "draft"))


def greedy(copy: Copy, random: np.random.Generator, batch: int) -> Workload:
    """Greedy acceptance of a batch."""
    targets = copy(random.integers(0, 2, (batch, DRAFTS + 1)).reshape(-1))
    drafts = copy(random.integers(0, 2, (batch, DRAFTS)).reshape(-1))
    counts = copy(np.full(batch, DRAFTS))
    accepted, codes = copy(np.zeros(batch, np.int64)), copy(np.zeros(batch, np.int64))

    def prepare(torch: Any) -> Work:
        wanted = on_device(torch, targets).reshape(batch, DRAFTS + 1)
        proposed = on_device(torch, drafts).reshape(batch, DRAFTS)

        def work() -> object:
            stand = (proposed == wanted[:, :DRAFTS]).long().cumprod(1).sum(1, keepdim=True)
            return stand, wanted.gather(1, stand)

        return work

    needed = sum(each.nbytes for each in (targets, drafts, counts, accepted, codes))
    size = f"{batch} × {DRAFTS} drafts"
    return Workload(
        "accept_greedy", size, needed,
        lambda kernels: kernels.accept_greedy(targets, drafts, counts, accepted, codes), Twin(prepare),
    )  # fmt: skip


class Laws:
    """Laws of a batch of rounds. Every draft of the even sequences stands, none of the odd ones does."""

    def __init__(self, random: np.random.Generator, batch: int) -> None:
        self.batch = batch
        target = random.dirichlet(np.full(CODEBOOK, 0.1), (batch, DRAFTS + 1)).astype(np.float32)
        draft = random.dirichlet(np.full(CODEBOOK, 0.1), (batch, DRAFTS)).astype(np.float32)
        draft[::2] = target[::2, :DRAFTS]
        drafts = draft.argmax(axis=2)
        for sequence in range(1, batch, 2):
            target[sequence, np.arange(DRAFTS), drafts[sequence]] = 0
        self.target, self.draft, self.drafts = target, draft, drafts

    @property
    def read_bytes(self) -> int:
        """The rows that decide: the bonus row where all stand, p and q where none does."""
        rejected = self.batch // 2
        return ROW_BYTES * (self.batch - rejected + 2 * rejected)

    def flat(self, copy: Copy) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """target, draft, drafts and counts as the kernels take them."""
        counts = copy(np.full(self.batch, DRAFTS))
        target, draft = (copy(each.reshape(-1, CODEBOOK)) for each in (self.target, self.draft))
        return target, draft, copy(self.drafts.reshape(-1)), counts

    def decide(self, torch: Any) -> Work:
        """(accepted [batch], codes [batch]) in PyTorch."""
        target, draft, drafts = (on_device(torch, each) for each in (self.target, self.draft, self.drafts))
        sequences = steps(torch, self.batch)

        def work() -> object:
            p = target[:, :DRAFTS].gather(2, drafts[:, :, None])[:, :, 0]
            q = draft.gather(2, drafts[:, :, None])[:, :, 0]
            accepted = (torch.rand_like(q) * q < p).long().cumprod(1).sum(1)
            rejected = draft[sequences, accepted.clamp(max=DRAFTS - 1)] * (accepted < DRAFTS)[:, None]
            residual = (target[sequences, accepted] - rejected).clamp(min=0)
            return accepted, torch.multinomial(residual, 1)[:, 0]

        return work


def rejection(copy: Copy, random: np.random.Generator, batch: int) -> Workload:
    """Rejection sampling of a batch."""
    laws = Laws(random, batch)
    arrays = laws.flat(copy)
    last, seeds = copy(np.ones(batch, np.int64)), copy(np.arange(batch, dtype=np.uint64))
    frames = copy(np.zeros(batch, np.uint32))
    accepted, codes = copy(np.zeros(batch, np.int64)), copy(np.zeros(batch, np.int64))
    return Workload(
        "accept_rejection", f"{batch} × {DRAFTS} drafts × {CODEBOOK}", laws.read_bytes,
        lambda kernels: kernels.accept_rejection(*arrays, last, seeds, frames, accepted, codes),
        Twin(laws.decide, draws=True),
    )  # fmt: skip


def commit(copy: Copy, random: np.random.Generator, batch: int) -> Workload:
    """Rejection sampling of a batch, and the commit into its frames."""
    laws = Laws(random, batch)
    target, draft, drafts, counts = laws.flat(copy)
    rows = copy(np.arange(batch))
    seeds, frames = copy(np.arange(batch, dtype=np.uint64)), copy(np.zeros(batch, np.uint32))
    hidden = copy(random.normal(size=(batch * (DRAFTS + 1), WIDTH)).astype(np.float32))
    first_hidden = copy(np.arange(batch) * (DRAFTS + 1))
    codes, last = copy(np.zeros((batch, MAX_GROUPS), np.int64)), copy(np.zeros(batch, np.int64))
    context = copy(np.zeros((batch, WIDTH), np.float32))
    accepted, commits = copy(np.zeros(batch, np.int64)), copy(np.zeros(batch, np.int64))

    def run(kernels: NativeKernels) -> None:
        state = codes, last, context
        kernels.accept_commit(
            target, draft, drafts, rows, counts, seeds, frames, hidden, first_hidden, *state, accepted, commits
        )

    def prepare(torch: Any) -> Work:
        decide, states, proposed = laws.decide(torch), on_device(torch, hidden), on_device(torch, laws.drafts)
        states = states.reshape(batch, DRAFTS + 1, WIDTH)
        committed, place = (on_device(torch, each) for each in (codes, last))
        sequences, offsets = steps(torch, batch), steps(torch, DRAFTS + 1)
        padded = torch.nn.functional.pad(proposed, (0, 1))
        kept, moved, following = (torch.empty_like(each) for each in (on_device(torch, context), place, committed))

        def work() -> object:
            stand, code = decide()
            new = torch.where(offsets < stand[:, None], padded, code[:, None])
            at = place[:, None] + 1 + offsets
            new = torch.where(offsets <= stand[:, None], new, committed.gather(1, at))
            following.copy_(committed.scatter(1, at, new))
            kept.copy_(states[sequences, stand])
            return moved.copy_(place + stand + 1)

        return work

    def reset() -> None:
        last[:] = 0

    needed = laws.read_bytes + 2 * context.nbytes
    size = f"{batch} × {DRAFTS} drafts × {CODEBOOK}"
    calls = (MAX_GROUPS - 1) // (DRAFTS + 1)  # from last = 0
    return Workload("accept_commit", size, needed, run, Twin(prepare, draws=True), reset, calls)
