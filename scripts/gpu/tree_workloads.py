"""The walk through trees of drafts, and the commit of its path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cpspec_trt.kernels.native import NativeKernels
from scripts.gpu.round_workloads import MAX_GROUPS, ROW_BYTES
from scripts.gpu.rule_workloads import Standing, certain, torch_race
from scripts.gpu.workload import CODEBOOK, NODE_DEPTHS, PARENTS, WIDTH, Copy, Twin, Work, Workload, on_device, steps

NODES, LEVELS = len(PARENTS), int(NODE_DEPTHS.max()) + 1


class Trees:
    """Trees whose first children are what the target draws, so that every walk goes down to a leaf."""

    def __init__(self, copy: Copy, random: np.random.Generator, batch: int) -> None:
        self._law, drawn = certain(random, (batch, NODES))
        self._proposed = np.zeros((batch, NODES), np.int64)
        for node in range(NODES):
            for index, child in enumerate(np.flatnonzero((node == PARENTS) & (NODE_DEPTHS > 0))):
                self._proposed[:, child] = (drawn[:, node] + index) % CODEBOOK
        self.target, self.node_codes = copy(self._law.reshape(-1, CODEBOOK)), copy(self._proposed.reshape(-1))
        self.parents, self.nodes = copy(np.tile(PARENTS, batch)), copy(np.full(batch, NODES))
        self.size, self.read_bytes = f"{batch} × {NODES} nodes × {CODEBOOK}", LEVELS * batch * ROW_BYTES

    def walk(self, torch: Any) -> Callable[[], Any]:
        """In PyTorch: visited nodes and the codes of all nodes, int64 [batch, LEVELS] and [batch, NODES]."""
        laws, proposals, above = (on_device(torch, each) for each in (self._law, self._proposed, PARENTS))
        below = on_device(torch, NODE_DEPTHS > 0)

        def work() -> Any:
            wanted = torch_race(torch, laws).argmax(-1)
            at = torch.zeros_like(wanted[:, :1])
            visited, going = [at], torch.ones_like(at, dtype=torch.bool)
            for _ in range(LEVELS - 1):
                match = below & (above == at) & (proposals == wanted.gather(1, at))
                going = going & match.any(1, keepdim=True)
                at = torch.where(going, match.long().argmax(1, keepdim=True), at)
                visited.append(torch.where(going, at, -1))
            return torch.cat(visited, 1), wanted

        return work


def walk(copy: Copy, random: np.random.Generator, batch: int) -> Workload:
    """The walk alone."""
    trees, own = Trees(copy, random, batch), Standing(copy, batch)
    path, codes = copy(np.zeros((batch, LEVELS), np.int64)), copy(np.zeros((batch, LEVELS), np.int64))
    lengths = copy(np.zeros(batch, np.int64))

    def run(kernels: NativeKernels) -> None:
        forest = trees.parents, trees.node_codes, trees.nodes
        kernels.accept_tree(trees.target, *forest, *own.noise, path, lengths, codes)

    return Workload("accept_tree", trees.size, trees.read_bytes, run, Twin(trees.walk, draws=True))


def commit(copy: Copy, random: np.random.Generator, batch: int) -> Workload:
    """The walk, and the commit into the frames."""
    trees, own, rows = Trees(copy, random, batch), Standing(copy, batch), copy(np.arange(batch))
    hidden = copy(random.normal(size=(batch * NODES, WIDTH)).astype(np.float32))
    first_hidden, first = copy(np.arange(batch) * NODES), copy(np.full(batch, 2))
    codes, last = copy(np.zeros((batch, MAX_GROUPS), np.int64)), copy(np.zeros(batch, np.int64))
    context = copy(np.zeros((batch, WIDTH), np.float32))
    commits, sources = copy(np.zeros(batch, np.int64)), copy(np.zeros((batch, LEVELS), np.int64))

    def run(kernels: NativeKernels) -> None:
        forest, state = (trees.parents, trees.node_codes, trees.nodes), (codes, last, context)
        kernels.accept_commit_tree(
            trees.target, rows, *forest, own.seeds, own.frames, hidden, first_hidden, *state, first, own.accepted,
            commits, sources,
        )  # fmt: skip

    def prepare(torch: Any) -> Work:
        walk, states = trees.walk(torch), on_device(torch, hidden).reshape(batch, NODES, WIDTH)
        committed, place = on_device(torch, codes), on_device(torch, last)
        sequences, offsets = steps(torch, batch), steps(torch, LEVELS)
        kept, moved, following = (torch.empty_like(each) for each in (on_device(torch, context), place, committed))

        def work() -> object:
            path, wanted = walk()
            count = (path >= 0).sum(1)
            at = place[:, None] + 1 + offsets
            new = torch.where(path >= 0, wanted.gather(1, path.clamp(min=0)), committed.gather(1, at))
            following.copy_(committed.scatter(1, at, new))
            kept.copy_(states[sequences, path.gather(1, count[:, None] - 1)[:, 0]])
            return moved.copy_(place + count), torch.where(path >= 0, path + 2, -1)

        return work

    def reset() -> None:
        last[:] = 0

    needed, calls = trees.read_bytes + 2 * context.nbytes, (MAX_GROUPS - 1) // LEVELS  # from last = 0
    return Workload("accept_commit_tree", trees.size, needed, run, Twin(prepare, draws=True), reset, calls)
