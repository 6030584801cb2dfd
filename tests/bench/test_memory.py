"""Reading memory."""

from __future__ import annotations

import resource

import pytest

from cpspec_trt.bench.memory import peak_bytes, read_bandwidth, threads_used


@pytest.mark.parametrize(("threads", "pieces"), [(1, 1), (2, 1), (1, 15)])
def test_a_plain_read_has_the_speed_of_some_memory(threads: int, pieces: int) -> None:
    assert 1e7 < read_bandwidth(4_000_000, threads, pieces) < 1e13


def test_the_peak_grows_with_what_is_held() -> None:
    before = peak_bytes()
    held = bytearray(300_000_000)
    held[::4096] = b"x" * len(held[::4096])
    assert peak_bytes() >= before
    assert peak_bytes() > len(held)
    assert peak_bytes() == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_no_wish_for_threads_means_every_core() -> None:
    assert threads_used(3) == 3
    assert threads_used(None) >= 1
