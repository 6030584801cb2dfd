"""Rope rows and masks, against PyTorch's values and the definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.stages.positions import MASKED, rope_rows, sliding_mask

GOLDEN = Path(__file__).with_name("rope_golden.npz")


@pytest.mark.parametrize(("head_dim", "theta"), [(8, 1e4), (64, 1e4), (16, 1e6), (128, 1e6)])
def test_rope_rows_are_those_of_pytorch_in_float32(head_dim: int, theta: float) -> None:
    with np.load(GOLDEN) as golden:
        positions = golden["positions"]
        expected = golden[f"cos_{head_dim}_{theta:.0f}"], golden[f"sin_{head_dim}_{theta:.0f}"]
    # PyTorch's power is now and then one float32 step off the correctly rounded one: the angle is off by as much.
    angles = positions[:, None] * theta ** (-np.arange(0, head_dim, 2) / head_dim)
    tolerance = 1.2e-7 + angles * 2.0**-23
    for found, reference in zip(rope_rows(positions, head_dim, theta), expected, strict=True):
        assert found.dtype == np.float32
        assert found.shape == (len(positions), head_dim // 2)
        assert (np.abs(found - reference) <= tolerance).all()
        assert (found == reference).mean() > 0.85


def test_rope_rows_keep_the_shape_of_the_positions() -> None:
    cos, sin = rope_rows(np.array([[3, 4], [9, 10]]), 8, 1e4)
    assert cos.shape == sin.shape == (2, 2, 4)
    np.testing.assert_array_equal(cos[1, 0], rope_rows(np.array([9]), 8, 1e4)[0][0])
    np.testing.assert_allclose(cos**2 + sin**2, 1.0, rtol=1e-6)


@pytest.mark.parametrize("window", [1, 2, 8])
@pytest.mark.parametrize("frames", [1, 3, 20])
def test_a_sliding_row_is_a_row_of_the_banded_mask_of_the_whole_sequence(window: int, frames: int) -> None:
    length = 40
    offset = np.arange(length)[:, None] - np.arange(length)[None, :]
    banded = np.where((offset >= 0) & (offset < window), 0.0, MASKED)
    padded = np.pad(banded, ((0, 0), (window - 1, 0)), constant_values=MASKED)  # frames that do not exist
    for start in range(length - frames + 1):
        expected = padded[start : start + frames, start : start + window - 1 + frames]
        np.testing.assert_array_equal(sliding_mask(start, frames, window), expected)


def test_the_first_frame_sees_only_itself() -> None:
    (row,) = sliding_mask(0, 1, 72)
    assert row.shape == (72,)
    assert np.flatnonzero(row == 0).tolist() == [71]
    assert sliding_mask(0, 1, 72).dtype == np.float32
