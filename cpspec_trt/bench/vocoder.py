"""code2wav alone: random codes in chunks of several sizes, in turns."""

from __future__ import annotations

import time

import numpy as np

from cpspec_trt.engines.engine import Engine
from cpspec_trt.errors import UsageError
from cpspec_trt.files.engine_config import AnyCode2WavConfig
from cpspec_trt.pipelines.machines import DECODE_CHUNK
from cpspec_trt.stages.code2wav import Code2WavStage

CHUNKS = (1, 4, DECODE_CHUNK)


def time_chunks(
    engine: Engine, config: AnyCode2WavConfig, frames: int, repetitions: int, seed: int
) -> dict[int, list[float]]:
    """Seconds per frame of every repetition, by chunk size.

    Each repetition decodes the same ``frames`` frames once in every chunk size that fits into them, after one chunk of
    each size that is not counted.
    """
    sizes = [size for size in CHUNKS if size <= frames]
    if not sizes:
        raise UsageError(f"--frames is {frames}; code2wav needs at least {CHUNKS[0]}")
    codes = np.random.default_rng(seed).integers(config.codebook_size, size=(frames, config.num_quantizers))
    stage = Code2WavStage(engine, config)
    for size in sizes:
        for _ in range(2):  # the two sets of state swap roles, so a chunk size has two bindings
            stage.decode(codes[:size], size)
    found: dict[int, list[float]] = {size: [] for size in sizes}
    for repetition in range(repetitions):
        for turn in range(len(sizes)):
            size = sizes[(turn + repetition) % len(sizes)]
            stage.reset()
            began = time.perf_counter()
            stage.decode(codes, size)
            found[size].append((time.perf_counter() - began) / frames)
    return found
