"""What a CodePredictor's passes take on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from cpspec_trt.files.pass_costs import PassCosts
from cpspec_trt.kernels.protocol import Kernels
from cpspec_trt.stages.code_predictor import CodePredictorStage

_SIZES = (1, 2, 3, 4, 5, 6, 8, 13, 21, 31, 64)
_REPEATS = 5


def measure_passes(stage: CodePredictorStage, kernels: Kernels, heads: np.ndarray) -> PassCosts:
    """Time passes of every size that the engine takes, and a head; the best of a few tries counts.

    Heads are timed as a frame reads them: behind a pass, and each but once, so that none comes from a cache.

    The cache holds garbage afterwards, and the stage is reset.

    Args:
        stage: over the engine.
        kernels: that apply the heads.
        heads: float32 [G-1, V, H].
    """
    sizes = [rows for rows in _SIZES if rows <= stage.max_rows]
    batch = stage.batch
    stage.start_frame(np.zeros((batch, stage.talker_hidden_size), np.float32), np.zeros(batch, np.int64))

    def verify(rows: int) -> None:
        stage.verify(np.zeros((batch, rows), np.int64))

    seconds = [_best(partial(verify, rows)) for rows in sizes]
    hidden, logits = np.zeros((1, heads.shape[2]), np.float32), np.empty((1, heads.shape[1]), np.float32)
    row, tries = np.zeros(1, np.int64), []
    for head in range(len(heads)):
        verify(1)
        tries.append(_seconds(partial(kernels.grouped_heads, hidden, row, row + head, heads, logits)))
    stage.reset()
    return PassCosts(tuple(sizes), tuple(_rising(seconds)), float(np.median(tries)))


def _best(run: Callable[[], object]) -> float:
    run()
    return min(_seconds(run) for _ in range(_REPEATS))


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _rising(seconds: Sequence[float]) -> list[float]:
    """More rows never take less: what says otherwise is noise."""
    return [float(value) for value in np.maximum.accumulate(seconds)]
