"""Every operation of the kernels at the sizes of a Qwen3-TTS frame."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from scripts.gpu import copying_workloads, logits_workloads, round_workloads, rule_workloads, tree_workloads
from scripts.gpu.workload import DRAFTS, Copy, Workload

BATCH = 8


def workloads(copy: Copy) -> Iterator[Workload]:
    """Every operation; ``copy`` moves an array into memory that host and device share."""
    random = np.random.default_rng(0)
    for rows in (DRAFTS, BATCH * DRAFTS):
        yield from logits_workloads.filters_and_draws(copy, random, rows)
    for batch, dtype in ((1, np.float32), (1, ml_dtypes.bfloat16), (BATCH, ml_dtypes.bfloat16)):
        yield from round_workloads.heads(copy, random, batch, np.dtype(dtype))
    yield logits_workloads.talker(copy, random)
    yield logits_workloads.thinker(copy, random)
    for batch in (1, BATCH):
        yield round_workloads.greedy(copy, random, batch)
        yield round_workloads.rejection(copy, random, batch)
        yield round_workloads.commit(copy, random, batch)
    yield rule_workloads.block(copy, random, BATCH)
    yield rule_workloads.coupled(copy, random, BATCH)
    yield rule_workloads.candidates(copy, random, BATCH)
    yield tree_workloads.walk(copy, random, BATCH)
    yield tree_workloads.commit(copy, random, BATCH)
    yield from copying_workloads.embeddings(copy, random, BATCH)
    yield copying_workloads.cache_rows(copy, BATCH)
