"""Rope rows and attention masks: everything about positions that a graph takes as input."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Added to a score before the softmax. Far below any real score, and finite: -inf in a whole row would give NaN.
MASKED = np.float32(-1e30)

Floats = NDArray[np.float32]


def rope_rows(positions: NDArray[np.integer], head_dim: int, theta: float) -> tuple[Floats, Floats]:
    """Cosine and sine of every rotary angle: angle(p, i) = p / theta^(2i / head_dim).

    The angles are rounded as PyTorch's float32 modules round them (exponent, power, reciprocal and
    product each to float32), because at position 10,000 one float32 step of the frequency already
    turns an angle by up to 1e-3. Their cosine and sine are correctly rounded.

    Args:
        positions: integer [...]; at most 2^24, beyond which float32 has no odd numbers.
        head_dim: even width of one attention head.
        theta: base of the geometric series of frequencies.

    Returns:
        cos and sin, float32 [..., head_dim / 2].
    """
    exponents = np.arange(0, head_dim, 2).astype(np.float32) / np.float32(head_dim)
    powers = np.power(np.float64(theta), exponents.astype(np.float64)).astype(np.float32)
    angles = np.asarray(positions).astype(np.float32)[..., None] * (np.float32(1.0) / powers)
    wide = angles.astype(np.float64)
    return np.cos(wide).astype(np.float32), np.sin(wide).astype(np.float32)


def sliding_mask(start_frame: int, frames: int, window: int) -> Floats:
    """Additive mask of code2wav: each frame sees itself and the ``window - 1`` frames before it.

    Column j stands for frame ``start_frame - (window - 1) + j``: first the window carried over from
    earlier chunks, then the chunk itself. Frames before the first one are masked, so that what their
    slots hold does not matter.

    Args:
        start_frame: number of frames decoded before this chunk.
        frames: frames in this chunk.
        window: keys that a frame sees, itself included.

    Returns:
        float32 [frames, window - 1 + frames]: 0 or ``MASKED``.
    """
    query = start_frame + np.arange(frames)[:, None]
    key = start_frame - (window - 1) + np.arange(window - 1 + frames)[None, :]
    visible = (key <= query) & (key > query - window) & (key >= 0)
    return np.where(visible, np.float32(0.0), MASKED)
