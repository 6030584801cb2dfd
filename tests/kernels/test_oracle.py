"""What only the oracle has: its buffers."""

from __future__ import annotations

import numpy as np

from cpspec_trt.kernels.oracle import OracleKernels, aligned_empty


def test_one_kernels_object_serves_models_of_different_sizes() -> None:
    kernels = OracleKernels()
    for vocabulary, width in ((5, 3), (3, 5), (5, 3)):
        heads = np.arange(vocabulary * width, dtype=np.float32).reshape(1, vocabulary, width)
        logits = np.empty((1, vocabulary), np.float32)
        kernels.grouped_heads(np.ones((1, width), np.float32), np.zeros(1, int), np.zeros(1, int), heads, logits)
        np.testing.assert_array_equal(logits[0], heads[0].sum(axis=1))


def test_aligned_buffers_start_on_a_cache_line() -> None:
    for length in (1, 7, 1024):
        buffer = aligned_empty(length)
        assert buffer.shape == (length,)
        assert buffer.ctypes.data % 64 == 0


def test_a_strided_hidden_row_gives_the_same_bits() -> None:
    random = np.random.default_rng(3)
    heads = random.normal(size=(2, 257, 96)).astype(np.float32)
    hidden = random.normal(size=(4, 96)).astype(np.float32)
    rows, head_rows = np.array([0, 3, 3]), np.array([1, 0, 1])
    plain, strided = np.empty((2, 3, 257), np.float32)
    OracleKernels().grouped_heads(hidden, rows, head_rows, heads, plain)
    OracleKernels().grouped_heads(np.repeat(hidden, 2, axis=1)[:, ::2], rows, head_rows, heads, strided)
    np.testing.assert_array_equal(strided, plain)
