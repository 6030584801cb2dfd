"""Bound operations over device memory give the bits of the CPU kernels, and refuse arrays that do not fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.devices.device import Device
from cpspec_trt.errors import UsageError
from cpspec_trt.kernels.device import DeviceKernels
from cpspec_trt.kernels.device_arrays import (
    DeviceDrafts,
    DeviceFilters,
    DeviceFrameState,
    DeviceHeadRows,
    DeviceNoise,
    DeviceTables,
)
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from tests.simulation.simulation import simulated

ROWS, VOCABULARY, WIDTH, HEADS = 3, 48, 16, 4
FILTERS = FilterRows.pack([FilterParameters(0.9, 8, 0.9), FilterParameters(0.0, 0, 1.0), FilterParameters(1.3, 0, 1.0)])
SEEDS = np.array([5, 2**63, 7], np.uint64)
STREAMS = np.array([1 << 16, 65800, 3], np.uint32)
FRAMES = np.array([0, 9, 4], np.uint32)


class Bench:
    """A device with the kernels, and short forms."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.kernels = DeviceKernels(device)
        self.random = np.random.default_rng(3)

    def floats(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(np.float32)

    def put(self, array: np.ndarray) -> DeviceArray:
        return self.device.uploaded(array)

    def out(self, dtype: type, *shape: int) -> DeviceArray:
        return self.device.array(shape, np.dtype(dtype))

    def filters(self) -> DeviceFilters:
        return DeviceFilters(self.put(FILTERS.temperature), self.put(FILTERS.top_k), self.put(FILTERS.top_p))

    def noise(self) -> DeviceNoise:
        return DeviceNoise(self.put(SEEDS), self.put(STREAMS), self.put(FRAMES))


@pytest.fixture
def bench() -> Iterator[Bench]:
    with simulated(), Device() as device:
        yield Bench(device)


def test_draft_and_score_have_the_bits_of_the_cpu_kernels(bench: Bench) -> None:
    hidden, heads = bench.floats(2, WIDTH), bench.floats(HEADS, VOCABULARY, WIDTH)
    hidden_rows, head_rows = np.array([1, 0, 1]), np.array([3, 0, 2])
    logits, draft = np.empty((ROWS, VOCABULARY), np.float32), np.empty((ROWS, VOCABULARY), np.float32)
    codes, errors = np.empty(ROWS, np.int64), np.empty(ROWS, np.int32)
    default_kernels().draft(
        hidden, hidden_rows, head_rows, heads, FILTERS, SEEDS, STREAMS, FRAMES, logits, draft, codes, errors
    )
    rows = DeviceHeadRows(bench.put(hidden), bench.put(hidden_rows), bench.put(head_rows))
    on_device = bench.put(heads)
    found = [bench.out(np.float32, ROWS, VOCABULARY) for _ in range(4)]
    drawn, flags = bench.out(np.int64, ROWS), bench.out(np.int32, ROWS)
    bench.kernels.draft(on_device, rows, bench.filters(), bench.noise(), *found[:2], drawn, flags).enqueue()
    bench.kernels.score(on_device, rows, bench.filters(), *found[2:], flags).enqueue()
    for array, expected in zip([*found, drawn, flags], [logits, draft, logits, draft, codes, errors], strict=True):
        np.testing.assert_array_equal(bench.device.read(array), expected)


def test_a_round_feeds_and_commits_as_the_cpu_kernels_do(bench: Bench) -> None:
    kernels = default_kernels()
    tables = [bench.floats(VOCABULARY, WIDTH) for _ in range(5)]
    codes, last = np.array([[4, 9, 0, 0, 0], [7, 0, 0, 0, 0]]), np.array([1, 0])
    rows, counts, drafts = np.array([0, 1]), np.array([2, 1]), np.array([11, 12, 13])
    target = np.abs(bench.floats(5, VOCABULARY)) / VOCABULARY
    draft = np.abs(bench.floats(3, VOCABULARY)) / VOCABULARY
    hidden, first, context = bench.floats(6, WIDTH), np.array([0, 3]), bench.floats(2, WIDTH)
    state = DeviceFrameState(bench.put(codes), bench.put(last), bench.put(context))
    on_device = DeviceDrafts(bench.put(rows), bench.put(counts), bench.put(drafts))
    embeddings = bench.out(np.float32, 2, 3, WIDTH)
    described = DeviceTables(bench.device, [bench.put(table) for table in tables])
    bench.kernels.build_verify_input(state, on_device, described, embeddings).enqueue()
    accepted, commits = bench.out(np.int64, 2), bench.out(np.int64, 2)
    bench.kernels.accept_commit(
        bench.put(target),
        bench.put(draft),
        on_device,
        bench.put(SEEDS[:2]),
        bench.put(FRAMES[:2]),
        bench.put(hidden),
        bench.put(first),
        state,
        accepted,
        commits,
    ).enqueue()

    fed, expected = np.empty((2, 3), np.int64), np.empty((2, 3, WIDTH), np.float32)
    kernels.build_verify_input(tables, codes, last, rows, counts, drafts, fed, expected)
    np.testing.assert_array_equal(bench.device.read(embeddings), expected)
    decided = np.empty(2, np.int64), np.empty(2, np.int64)
    kernels.accept_commit(
        target, draft, drafts, rows, counts, SEEDS[:2], FRAMES[:2], hidden, first, codes, last, context, *decided
    )
    results = (state.codes, state.last, state.context, accepted, commits)
    for array, expected in zip(results, (codes, last, context, *decided), strict=True):
        np.testing.assert_array_equal(bench.device.read(array), expected)


def test_the_talkers_draw_and_the_thinkers_have_the_bits_of_the_cpu_kernels(bench: Bench) -> None:
    kernels, logits = default_kernels(), bench.floats(ROWS, VOCABULARY) * 3
    seen = (bench.random.random((ROWS, VOCABULARY)) < 0.2).astype(np.uint8)
    penalty, ban = np.array([1.1, 1.0, 2.0], np.float32), np.array([1, 0, 1], np.uint8)
    suppressed = np.zeros(VOCABULARY, np.uint8)
    suppressed[40:] = 1
    codes, errors = np.empty(ROWS, np.int64), np.empty(ROWS, np.int32)
    work = np.empty((ROWS, VOCABULARY), np.float32)
    kernels.draw_talker(logits.copy(), seen, penalty, suppressed, 39, ban, FILTERS, SEEDS, FRAMES, work, codes, errors)
    drawn, flags, source = bench.out(np.int64, ROWS), bench.out(np.int32, ROWS), bench.put(logits)
    bench.kernels.draw_talker(
        source,
        bench.put(seen),
        bench.put(penalty),
        bench.put(suppressed),
        39,
        bench.put(ban),
        bench.filters(),
        bench.put(SEEDS),
        bench.put(FRAMES),
        drawn,
        flags,
    ).enqueue()
    np.testing.assert_array_equal(bench.device.read(drawn), codes)
    kernels.sample(logits, FILTERS, SEEDS, STREAMS, FRAMES, None, codes, errors)
    bench.kernels.sample(source, bench.filters(), bench.noise(), drawn, flags).enqueue()
    np.testing.assert_array_equal(bench.device.read(drawn), codes)
    np.testing.assert_array_equal(bench.device.read(flags), errors)


def test_embeddings_are_gathered_and_summed_as_the_cpu_kernels_do(bench: Bench) -> None:
    kernels, tables = default_kernels(), [bench.floats(VOCABULARY, WIDTH) for _ in range(3)]
    described = DeviceTables(bench.device, [bench.put(table) for table in tables])
    ids, codes = np.array([2, 0, 1]), np.array([5, 47, 0])
    rows, found = np.empty((3, WIDTH), np.float32), bench.out(np.float32, 3, WIDTH)
    kernels.gather_codec_embeddings(tables, ids, codes, rows)
    bench.kernels.gather_codec_embeddings(described, bench.put(ids), bench.put(codes), found).enqueue()
    np.testing.assert_array_equal(bench.device.read(found), rows)
    frames, total = np.array([[1, 2, 3], [4, 5, 6]]), np.empty((2, WIDTH), np.float32)
    kernels.sum_codec_embeddings(tables, frames, total)
    bench.kernels.sum_codec_embeddings(described, bench.put(frames), found.leading(2, WIDTH)).enqueue()
    np.testing.assert_array_equal(bench.device.read(found.leading(2, WIDTH)), total)


def test_launches_are_counted_and_a_captured_operation_runs_again_over_new_values(bench: Bench) -> None:
    described = DeviceTables(bench.device, [bench.put(bench.floats(VOCABULARY, WIDTH))])
    ids, codes = bench.put(np.zeros(1, np.int64)), bench.put(np.zeros(1, np.int64))
    found = bench.out(np.float32, 1, WIDTH)
    gather = bench.kernels.gather_codec_embeddings(described, ids, codes, found)
    before = bench.device.submitted.copy()
    gather.enqueue()
    assert bench.device.submitted.since(before).kernels == 1
    first = bench.device.read(found)
    graph = bench.device.capture(gather.enqueue)
    bench.device.write(codes, np.array([7]))
    before = bench.device.submitted.copy()
    graph.launch()
    assert bench.device.submitted.since(before).kernels == 1
    assert not np.array_equal(bench.device.read(found), first)


def test_an_array_of_another_shape_or_dtype_is_named(bench: Bench) -> None:
    described = DeviceTables(bench.device, [bench.put(bench.floats(VOCABULARY, WIDTH))])
    ids = bench.put(np.zeros(2, np.int64))
    with pytest.raises(UsageError, match=r"codes must be a int64 array.*on the device, not a float32"):
        bench.kernels.gather_codec_embeddings(described, ids, bench.out(np.float32, 2), bench.out(np.float32, 2, WIDTH))
    with pytest.raises(UsageError, match=r"embeddings must be .* of shape \(2, 16\).*shape \(2, 15\)"):
        bench.kernels.gather_codec_embeddings(described, ids, ids, bench.out(np.float32, 2, WIDTH - 1))
    with pytest.raises(UsageError, match=r"table 1 must be .* of shape \(48, 16\)"):
        DeviceTables(bench.device, [bench.out(np.float32, 48, 16), bench.out(np.float32, 48, 8)])
    rows = DeviceHeadRows(bench.out(np.int64, 2, WIDTH), ids, ids)
    target, errors = bench.out(np.float32, 2, VOCABULARY), bench.out(np.int32, 2)
    heads = bench.out(np.float32, HEADS, VOCABULARY, WIDTH)
    with pytest.raises(UsageError, match="hidden must be float32, float16 or bfloat16, not int64"):
        bench.kernels.score(heads, rows, bench.filters(), target, target, errors)
