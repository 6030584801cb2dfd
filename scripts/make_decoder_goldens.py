"""Goldens of code2wav, made with the PyTorch reference: waveforms of two decoders and rope rows.

Run in the reference environment (torch, transformers 4.57.3, qwen-tts 0.1.1), from the project's root:

    python scripts/make_decoder_goldens.py

Writes tests/graphs/code2wav_golden.npz and tests/stages/rope_golden.npz.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

ROPE_CASES = ((8, 1e4), (64, 1e4), (16, 1e6), (128, 1e6))  # head_dim, theta
ROPE_POSITIONS = (0, 1, 2, 71, 72, 1000, 4095, 8000, 32767)


def rope_golden() -> dict[str, np.ndarray]:
    """Rope rows as the rotary modules of the reference compute them."""
    positions = torch.tensor(ROPE_POSITIONS)
    arrays = {"positions": positions.numpy()}
    for head_dim, theta in ROPE_CASES:
        exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).to(torch.float) / head_dim
        frequencies = 1.0 / (theta**exponents)
        angles = frequencies[None, :] * positions[:, None].float()
        arrays[f"cos_{head_dim}_{theta:.0f}"] = angles.cos().numpy()
        arrays[f"sin_{head_dim}_{theta:.0f}"] = angles.sin().numpy()
    return arrays


if __name__ == "__main__":
    np.savez_compressed(ROOT / "tests/stages/rope_golden.npz", **rope_golden())
