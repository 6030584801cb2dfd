"""How fast this machine reads memory, and how much of it a process took."""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

_TRIES = 3


def peak_bytes() -> int:
    """The most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def threads_used(threads: int | None) -> int:
    """Threads of an engine pass: those asked for, else every core this process may use."""
    return threads or len(os.sched_getaffinity(0))


def read_bandwidth(size: int, threads: int, pieces: int = 1) -> float:
    """Bytes per second of a plain read: numpy's fastest reductions over ``size`` bytes, the best of a few tries.

    Args:
        size: bytes, as many as what it is compared with, so that caches help both alike.
        threads: that share the read.
        pieces: in which the bytes are read, each timed alone; the median counts.
    """
    words = np.ones(max(size // 8, threads * pieces), np.uint64)
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for reduction in (np.bitwise_or.reduce, np.max):
            for _ in range(_TRIES + 1):  # the first one wakes the threads
                times = [_seconds(pool, reduction, piece, threads) for piece in np.array_split(words, pieces)]
                best = min(best, statistics.median(times))
    return words.nbytes / pieces / best


def _seconds(
    pool: ThreadPoolExecutor, reduction: Callable[[np.ndarray], object], words: np.ndarray, threads: int
) -> float:
    parts = np.array_split(words, threads)
    began = time.perf_counter()
    if threads == 1:
        reduction(words)  # handing 8 MB to another thread would take a good part of the time
    else:
        list(pool.map(reduction, parts))
    return time.perf_counter() - began
