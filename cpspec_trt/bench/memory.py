"""How fast this machine reads memory, and how much of it a process took."""

from __future__ import annotations

import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

_TRIES = 3


def peak_bytes() -> int:
    """The most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def threads_used(threads: int | None) -> int:
    """Threads of an engine pass: those asked for, else every core this process may use."""
    return threads or len(os.sched_getaffinity(0))


def read_bandwidth(size: int, threads: int) -> float:
    """Bytes per second of a plain read: numpy's fastest reductions over ``size`` bytes, the best of a few tries.

    Args:
        size: bytes, as many as what it is compared with, so that caches help both alike.
        threads: that share the read.
    """
    words = np.ones(max(size // 8, threads), np.uint64)
    parts = np.array_split(words, threads)
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for reduction in (np.bitwise_or.reduce, np.max):
            for _ in range(_TRIES + 1):  # the first one wakes the threads
                began = time.perf_counter()
                list(pool.map(reduction, parts))
                best = min(best, time.perf_counter() - began)
    return words.nbytes / best
