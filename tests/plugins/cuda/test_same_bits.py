"""The CUDA kernels give the CPU library's bits, whatever the schedule and the size of a block."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from tests.plugins.cuda.cases import Case, acceptance_cases, copying_cases, heads_cases, logits_cases

CPU = default_kernels()


def assert_same_bits(cases: dict[str, Case], cuda: NativeKernels) -> None:
    for name, run in cases.items():
        for want, got in zip(run(CPU), run(cuda), strict=True):
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8), err_msg=name)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("vocabulary", [1, 8, 97, 1024, 2048, 4096])
def test_filters_and_draws_are_the_cpu_librarys(cuda: NativeKernels, vocabulary: int, seed: int) -> None:
    assert_same_bits(logits_cases(np.random.default_rng([seed, vocabulary]), vocabulary), cuda)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("vocabulary", "width"), [(1, 1), (8, 5), (97, 64), (300, 1024), (2048, 96)])
def test_heads_drafts_and_scores_are_the_cpu_librarys(
    cuda: NativeKernels, vocabulary: int, width: int, seed: int
) -> None:
    assert_same_bits(heads_cases(np.random.default_rng([seed, vocabulary]), vocabulary, width), cuda)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("vocabulary", [8, 97, 2048])
def test_acceptance_and_commit_are_the_cpu_librarys(cuda: NativeKernels, vocabulary: int, seed: int) -> None:
    assert_same_bits(acceptance_cases(np.random.default_rng([seed, vocabulary]), vocabulary, 5 + 59 * (seed % 2)), cuda)


@pytest.mark.parametrize("width", [5, 64])
@pytest.mark.parametrize("seed", range(3))
def test_embeddings_verify_input_and_cache_rows_are_the_cpu_librarys(
    cuda: NativeKernels, width: int, seed: int
) -> None:
    assert_same_bits(copying_cases(np.random.default_rng([seed, width]), 50, width), cuda)


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (20, 1.0), (50, 0.8), (0, 0.9), (1000, 0.95)])
def test_a_draw_over_152064_words_is_the_cpu_librarys(cuda: NativeKernels, top_k: int, top_p: float) -> None:
    vocabulary, rows = 152_064, 2
    random = np.random.default_rng(top_k)
    logits = (4 * random.normal(size=(rows, vocabulary))).astype(np.float32)
    logits[1] = np.round(logits[1])  # ties across blocks
    filters = FilterRows.pack([FilterParameters(0.9, top_k, top_p)] * rows)
    seeds, frames = np.array([3, 2**60], np.uint64), np.array([0, 77], np.uint32)

    def run(kernels: NativeKernels) -> list[np.ndarray]:
        probabilities = np.full((rows, vocabulary), np.nan, np.float32)
        codes, errors = np.full(rows, -7, np.int64), np.full(rows, -7, np.int32)
        streams = stream(Purpose.THINKER, np.zeros(rows, np.int64))
        kernels.sample(logits, filters, seeds, streams, frames, probabilities, codes, errors)
        return [probabilities, codes, errors]

    assert_same_bits({"sample": run}, cuda)


def test_calls_leave_the_arrival_counters_at_zero(cuda: NativeKernels) -> None:
    cases = heads_cases(np.random.default_rng(1), 97, 64)
    first = cases["draft"](cuda)
    for again in (cases["draft"](cuda), cases["draft"](cuda)):
        for want, got in zip(first, again, strict=True):
            np.testing.assert_array_equal(got, want)
