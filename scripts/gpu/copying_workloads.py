"""Rows that are moved: embeddings, the verify pass's input, the KV rows of an accepted path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from scripts.gpu.workload import (
    CODEBOOK,
    DRAFTS,
    GROUPS,
    NODE_DEPTHS,
    PARENTS,
    WIDTH,
    Copy,
    Twin,
    Work,
    Workload,
    on_device,
    steps,
)

# Of the CodePredictor of Qwen3-TTS.
LAYERS, HEADS, CAPACITY, HEAD_SIZE = 5, 8, 32, 128
LAST = 3  # of every frame in the middle of which a round stands


def embeddings(copy: Copy, random: np.random.Generator, batch: int) -> Iterator[Workload]:
    """Gather, sum and the inputs of verify passes over one set of tables."""
    tables = [copy(random.normal(size=(CODEBOOK, WIDTH)).astype(np.float32)) for _ in range(GROUPS)]
    yield _verify_input(copy, random, tables, batch)
    yield _tree_input(copy, random, tables, batch)
    yield _gather(copy, random, tables, batch * (DRAFTS + 1))
    yield _sum(copy, random, tables, batch)


def _verify_input(copy: Copy, random: np.random.Generator, tables: list[np.ndarray], batch: int) -> Workload:
    codes = copy(random.integers(0, CODEBOOK, (batch, GROUPS)))
    last, rows, counts = copy(np.full(batch, LAST)), copy(np.arange(batch)), copy(np.full(batch, DRAFTS))
    drafts = copy(random.integers(0, CODEBOOK, batch * DRAFTS))
    fed = copy(np.zeros((batch, DRAFTS + 1), np.int64))
    out = copy(np.zeros((batch, DRAFTS + 1, WIDTH), np.float32))

    def prepare(torch: Any) -> Work:
        weights = on_device(torch, np.stack(tables))
        committed, place = on_device(torch, codes), on_device(torch, last)[:, None]
        proposed = on_device(torch, drafts).reshape(batch, DRAFTS)
        offsets = steps(torch, DRAFTS + 1)

        def work() -> object:
            ids = torch.cat([committed.gather(1, place), proposed], dim=1)
            return ids, weights[place + offsets, ids]

        return work

    return Workload(
        "build_verify_input", f"{batch} × {DRAFTS + 1} rows of {WIDTH}", 2 * out.nbytes + fed.nbytes,
        lambda kernels: kernels.build_verify_input(tables, codes, last, rows, counts, drafts, fed, out), Twin(prepare),
    )  # fmt: skip


def _tree_input(copy: Copy, random: np.random.Generator, tables: list[np.ndarray], batch: int) -> Workload:
    nodes = len(PARENTS)
    codes = copy(random.integers(0, CODEBOOK, (batch, GROUPS)))
    last, rows, counts = copy(np.full(batch, LAST)), copy(np.arange(batch)), copy(np.full(batch, nodes))
    parents = copy(np.tile(PARENTS, batch))
    proposed = random.integers(0, CODEBOOK, (batch, nodes))
    node_codes = copy(proposed.reshape(-1))
    fed = copy(np.zeros((batch, nodes), np.int64))
    out = copy(np.zeros((batch, nodes, WIDTH), np.float32))

    def prepare(torch: Any) -> Work:
        weights, committed = on_device(torch, np.stack(tables)), on_device(torch, codes)
        place, below = on_device(torch, last)[:, None], on_device(torch, proposed[:, 1:])
        depths = on_device(torch, NODE_DEPTHS)

        def work() -> object:
            ids = torch.cat([committed.gather(1, place), below], dim=1)
            return ids, weights[place + depths, ids]

        return work

    return Workload(
        "build_tree_input", f"{batch} × {nodes} rows of {WIDTH}", 2 * out.nbytes + fed.nbytes,
        lambda kernels: kernels.build_tree_input(tables, codes, last, rows, parents, node_codes, counts, fed, out),
        Twin(prepare),
    )  # fmt: skip


def _gather(copy: Copy, random: np.random.Generator, tables: list[np.ndarray], rows: int) -> Workload:
    table_ids, codes = copy(random.integers(0, GROUPS, rows)), copy(random.integers(0, CODEBOOK, rows))
    out = copy(np.zeros((rows, WIDTH), np.float32))

    def prepare(torch: Any) -> Work:
        weights, groups, ids = (on_device(torch, each) for each in (np.stack(tables), table_ids, codes))
        return lambda: weights[groups, ids]

    return Workload(
        "gather_codec_embeddings", f"{rows} rows of {WIDTH}", 2 * out.nbytes,
        lambda kernels: kernels.gather_codec_embeddings(tables, table_ids, codes, out), Twin(prepare),
    )  # fmt: skip


def _sum(copy: Copy, random: np.random.Generator, tables: list[np.ndarray], batch: int) -> Workload:
    codes = copy(random.integers(0, CODEBOOK, (batch, GROUPS)))
    feedback = copy(np.zeros((batch, WIDTH), np.float32))

    def prepare(torch: Any) -> Work:
        weights, ids = on_device(torch, np.stack(tables)), on_device(torch, codes)
        groups = steps(torch, GROUPS)
        return lambda: weights[groups, ids].sum(1)

    return Workload(
        "sum_codec_embeddings", f"{batch} × {GROUPS} rows of {WIDTH}", (GROUPS + 1) * feedback.nbytes,
        lambda kernels: kernels.sum_codec_embeddings(tables, codes, feedback), Twin(prepare),
    )  # fmt: skip


def cache_rows(copy: Copy, batch: int) -> Workload:
    """Two accepted rows of every sequence, in the keys and values of every layer."""
    shape = (batch, HEADS, CAPACITY, HEAD_SIZE)
    caches = [copy(np.ones(shape, ml_dtypes.bfloat16)) for _ in range(2 * LAYERS)]
    rows, counts, first = copy(np.arange(batch)), copy(np.full(batch, 2)), copy(np.full(batch, LAST))
    sources = np.tile([LAST + 1, LAST + 4], batch)
    flat = copy(sources)

    def prepare(torch: Any) -> Work:
        tensors = [on_device(torch, each) for each in caches]
        sequences = steps(torch, batch)[:, None]
        old = on_device(torch, sources).reshape(batch, 2)
        new = LAST + steps(torch, 2).expand(batch, 2)

        def work() -> object:
            for cache in tensors:
                cache[sequences, :, new] = cache[sequences, :, old]
            return tensors

        return work

    moved = batch * 2 * HEADS * HEAD_SIZE * 2
    return Workload(
        "copy_accepted_rows", f"{2 * LAYERS} caches, {batch} × 2 rows, bfloat16", 2 * len(caches) * moved,
        lambda kernels: kernels.copy_accepted_rows(caches, rows, counts, first, flat), Twin(prepare),
    )  # fmt: skip
