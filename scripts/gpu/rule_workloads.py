"""The other rules of acceptance: block and coupling, and the candidates that trees are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from scripts.gpu.round_workloads import ROW_BYTES, Laws
from scripts.gpu.workload import (
    CODEBOOK,
    DRAFTS,
    Copy,
    Twin,
    Work,
    Workload,
    on_device,
    steps,
)

WIDTH = 4  # candidates of a row


class Standing:
    """Where the sequences of a batch stand, and what they are told."""

    def __init__(self, copy: Copy, batch: int) -> None:
        self.last, self.seeds = copy(np.ones(batch, np.int64)), copy(np.arange(batch, dtype=np.uint64))
        self.frames = copy(np.zeros(batch, np.uint32))
        self.accepted, self.codes = copy(np.zeros(batch, np.int64)), copy(np.zeros(batch, np.int64))

    @property
    def noise(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.last, self.seeds, self.frames


def block(copy: Copy, random: np.random.Generator, batch: int) -> Workload:
    """Block verification of a batch."""
    laws, own = Laws(random, batch), Standing(copy, batch)
    arrays = laws.flat(copy)

    def prepare(torch: Any) -> Work:
        target, draft, drafts = (on_device(torch, each) for each in (laws.target, laws.draft, laws.drafts))
        sequences = steps(torch, batch)

        def work() -> object:
            ratios = target[:, :DRAFTS].gather(2, drafts[:, :, None]) / draft.gather(2, drafts[:, :, None])
            uniforms = torch.rand_like(ratios)
            joint = scale = torch.ones_like(ratios[:, 0, 0])
            kept = torch.zeros_like(drafts[:, 0])
            for slot in range(DRAFTS):
                joint = reach = (joint * ratios[:, slot, 0]).clamp(max=1)
                if slot + 1 < DRAFTS:
                    mass = (joint[:, None] * target[:, slot + 1] - draft[:, slot + 1]).clamp(min=0).sum(1)
                    whole = mass + 1 - joint
                    reach = torch.where(whole > 0, mass / whole, 1.0)
                stands = uniforms[:, slot, 0] <= reach
                kept, scale = torch.where(stands, slot + 1, kept), torch.where(stands, joint, scale)
            rejected = draft[sequences, kept.clamp(max=DRAFTS - 1)] * (kept < DRAFTS)[:, None]
            residual = (scale[:, None] * target[sequences, kept] - rejected).clamp(min=0)
            return kept, torch.multinomial(residual, 1)[:, 0]

        return work

    needed = laws.read_bytes + 2 * batch * (DRAFTS - 1) * ROW_BYTES
    return Workload(
        "accept_block", f"{batch} × {DRAFTS} drafts × {CODEBOOK}", needed,
        lambda kernels: kernels.accept_block(*arrays, *own.noise, own.accepted, own.codes), Twin(prepare, draws=True),
    )  # fmt: skip


def torch_race(torch: Any, law: Any) -> Any:
    """Perturbed log-probabilities."""
    return law.log() - torch.empty_like(law).exponential_().log()


def certain(random: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Laws with a code that no noise overcomes, and that code."""
    law = random.dirichlet(np.full(CODEBOOK, 0.1), shape).astype(np.float32)
    codes = random.integers(0, CODEBOOK, shape)
    np.put_along_axis(law, codes[..., None], 1e12, axis=-1)
    return law / law.sum(axis=-1, keepdims=True), codes


def coupled(copy: Copy, random: np.random.Generator, batch: int) -> Workload:
    """Coupling of a batch: every draft of the even sequences stands, none of the odd ones."""
    own = Standing(copy, batch)
    law, drawn = certain(random, (batch, DRAFTS + 1))
    proposed = drawn[:, :DRAFTS].copy()
    proposed[1::2] = (proposed[1::2] + 1) % CODEBOOK
    target, drafts = copy(law.reshape(-1, CODEBOOK)), copy(proposed.reshape(-1))
    counts = copy(np.full(batch, DRAFTS))

    def prepare(torch: Any) -> Work:
        laws, codes = on_device(torch, law), on_device(torch, proposed)

        def work() -> object:
            wanted = torch_race(torch, laws).argmax(-1)
            stand = (codes == wanted[:, :DRAFTS]).long().cumprod(1).sum(1, keepdim=True)
            return stand, wanted.gather(1, stand)

        return work

    refused = batch // 2
    needed = ROW_BYTES * ((DRAFTS + 1) * (batch - refused) + refused)
    return Workload(
        "accept_coupled", f"{batch} × {DRAFTS} drafts × {CODEBOOK}", needed,
        lambda kernels: kernels.accept_coupled(target, drafts, counts, *own.noise, own.accepted, own.codes),
        Twin(prepare, draws=True),
    )  # fmt: skip


def candidates(copy: Copy, random: np.random.Generator, batch: int) -> Workload:
    """The first few of each row's race."""
    law = copy(random.dirichlet(np.full(CODEBOOK, 0.1), batch).astype(np.float32))
    widths, found = copy(np.full(batch, WIDTH)), copy(np.zeros((batch, WIDTH), np.int64))
    own, streams = Standing(copy, batch), copy(np.ones(batch, np.uint32))

    def prepare(torch: Any) -> Work:
        values = on_device(torch, law)
        return lambda: torch.topk(torch_race(torch, values), WIDTH).indices

    return Workload(
        "draw_candidates", f"{batch} × {CODEBOOK}, {WIDTH} each", law.nbytes,
        lambda kernels: kernels.draw_candidates(law, widths, own.seeds, streams, own.frames, found),
        Twin(prepare, draws=True),
    )  # fmt: skip
