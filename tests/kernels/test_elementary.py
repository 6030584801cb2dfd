"""The functions of plugins/core: published vectors, error bounds against float64, the same bits everywhere."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from cpspec_trt.kernels.native import NativeKernels
from tests.kernels import definition, functions
from tests.kernels.implementations import CPU_LEVELS, cpu_kernels
from tests.kernels.test_philox import KNOWN_ANSWERS

BEST = CPU_LEVELS[0]


def _bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


# What core/elementary.h states: the function, its double, the range as bit patterns, the bound in ulp.
STATED: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray], int, int]] = {
    "exp": (functions.EXP, np.exp, _bits(-0.0), _bits(-87.0)),
    "log": (functions.LOG, np.log, 1, _bits(3e38)),
    "log1p": (functions.LOG1P, np.log1p, _bits(-(2.0**-126)), _bits(-1 + 2.0**-24)),
}
STATED_ULP = 1.0


def _worst_ulp(native: NativeKernels, name: str, patterns: np.ndarray) -> float:
    function, exact, _, _ = STATED[name]
    x = patterns.astype(np.uint32).view(np.float32)
    want = exact(x.astype(np.float64))
    unit = np.exp2(np.frexp(want)[1].astype(np.float64) - 24)
    return float((np.abs(functions.evaluate(native, function, x).astype(np.float64) - want) / unit).max())


@pytest.mark.parametrize("name", STATED)
def test_errors_stay_below_what_is_stated_over_a_sample(native: NativeKernels, name: str) -> None:
    _, _, first, last = STATED[name]
    patterns = np.append(np.arange(first, last, max((last - first) // 150_000, 1)), last)
    assert _worst_ulp(native, name, patterns) < STATED_ULP


def _pieces(first: int, last: int) -> Iterator[np.ndarray]:
    for begin in range(first, last + 1, 1 << 22):
        yield np.arange(begin, min(begin + (1 << 22), last + 1), dtype=np.uint32)


@pytest.mark.long
@pytest.mark.parametrize("name", STATED)
def test_errors_stay_below_what_is_stated_for_every_float32(name: str) -> None:
    _, _, first, last = STATED[name]
    assert max(_worst_ulp(cpu_kernels(BEST), name, piece) for piece in _pieces(first, last)) < STATED_ULP


def test_a_weight_below_the_range_of_exp_is_exactly_zero(native: NativeKernels) -> None:
    x = np.array([-87.0, np.nextafter(np.float32(-87), np.float32(-88)), -88, -104, -1e30, -np.inf], np.float32)
    assert (functions.evaluate(native, functions.EXP, x) > 0).tolist() == [True, False, False, False, False, False]
    assert functions.evaluate(native, functions.EXP, np.array([0.0, -0.0], np.float32)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", STATED)
def test_every_implementation_gives_the_same_bits(native: NativeKernels, name: str) -> None:
    function, _, first, last = STATED[name]
    x = np.random.default_rng(first).integers(first, last + 1, 30_011).astype(np.uint32).view(np.float32)
    got, want = functions.evaluate(native, function, x), functions.evaluate(cpu_kernels(BEST), function, x)
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def test_the_published_known_answers_come_out(native: NativeKernels) -> None:
    counters, keys, answers = (
        np.array([[int(word, 16) for word in row[column].split()] for row in KNOWN_ANSWERS], np.uint32)
        for column in range(3)
    )
    np.testing.assert_array_equal(functions.philox(native, counters, keys), answers)


def test_words_follow_the_counter_layout(native: NativeKernels) -> None:
    random = np.random.default_rng(7)
    count = 501
    seeds = random.integers(0, 2**64, count, dtype=np.uint64)
    streams, frames = random.integers(0, 2**32, (2, count), dtype=np.uint32)
    tokens = random.integers(0, 200_000, count)
    words = functions.token_words(native, seeds, streams, frames, tokens)
    want = [definition.word(*(int(each) for each in row)) for row in zip(seeds, frames, streams, tokens, strict=True)]
    assert words.tolist() == want


def test_uniforms_are_the_definitions_and_gumbel_noise_is_near_float64(native: NativeKernels) -> None:
    words = np.concatenate(
        [np.arange(64), 2 ** np.arange(32), np.random.default_rng(0).integers(0, 2**32, 3000), [2**32 - 1]]
    ).astype(np.uint32)
    uniforms, gumbels = functions.noise(native, words)
    assert uniforms.tolist() == [definition.uniform(int(each)) for each in words]
    want = np.array([definition.gumbel(int(each)) for each in words])
    np.testing.assert_allclose(gumbels, want, rtol=3e-7, atol=3e-7)


def test_noise_has_the_same_bits_everywhere(native: NativeKernels) -> None:
    words = np.random.default_rng(2).integers(0, 2**32, 20_003, dtype=np.uint32)
    for got, want in zip(functions.noise(native, words), functions.noise(cpu_kernels(BEST), words), strict=True):
        np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def _fused(native: NativeKernels, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c by a dot product whose first lane adds up c * 1 and a * b, and whose other lanes hold 0."""
    weights = np.zeros((1, len(a), 33), np.float32)
    weights[0, :, 0], weights[0, :, 32] = c, a
    hidden = np.zeros((len(b), 33), np.float32)
    hidden[:, 0], hidden[:, 32] = 1, b
    logits = np.empty((len(b), len(a)), np.float32)
    native.grouped_heads(hidden, np.arange(len(b)), np.zeros(len(b), np.int64), weights, logits)
    return logits


def test_multiply_adds_round_once(native: NativeKernels) -> None:
    # Few-bit factors and addends far apart put many results next to the middle between two floats.
    random = np.random.default_rng(11)

    def numbers(count: int, bits: int, spread: int) -> np.ndarray:
        mantissas = random.integers(-(2**bits), 2**bits, count)
        return (mantissas * np.exp2(random.integers(-spread, spread, count).astype(float))).astype(np.float32)

    a = np.concatenate([numbers(200, 24, 20), numbers(200, 13, 30), numbers(100, 24, 2), [1e-30, -1e-38, 3e38, 0.0]])
    c = np.concatenate([numbers(200, 24, 20), numbers(200, 2, 30), numbers(100, 24, 26), [1e-44, 1e-38, -3e38, 0.0]])
    b = np.concatenate([numbers(40, 24, 3), numbers(40, 12, 3), [1.0, 1e-12]]).astype(np.float32)
    a, c = a.astype(np.float32), c.astype(np.float32)
    fmaf = ctypes.CDLL(ctypes.util.find_library("m")).fmaf
    fmaf.restype = ctypes.c_float
    fmaf.argtypes = [ctypes.c_float] * 3
    want = np.array([[fmaf(x, y, z) for x, z in zip(a.tolist(), c.tolist(), strict=True)] for y in b.tolist()])
    np.testing.assert_array_equal(_fused(native, a, b, c), want.astype(np.float32))
