"""Goldens of code2wav, made with the PyTorch reference: waveforms of three decoders and rope rows.

Run from the project's root in the environment of `scripts/reference/make_environment.sh tts`:

    python scripts/make_decoder_goldens.py

Writes tests/graphs/code2wav_golden.npz and tests/stages/rope_golden.npz. The tiny decoders' weights are
not stored: they follow from ``TINY_SEED``.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from reference.pytorch_reference import PyTorchReference, Request

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cpspec_trt.synthetic.spec import TINY, TtsSpec  # noqa: E402
from cpspec_trt.synthetic.tts import write_tts_checkpoint  # noqa: E402

TINY_SEED = 21
GROUPED = replace(TINY, decoder=replace(TINY.decoder, num_key_value_heads=2))
TINY_FRAMES = 5 * TINY.decoder.sliding_window
DEMO = ROOT / "assets" / "demo-voice"
DEMO_SENTENCES = 4  # together more than four attention windows
# Every 7th sample is enough: 7 divides no upsampling rate, so all phases and channels take part.
DEMO_STRIDE = 7
ROPE_CASES = ((8, 1e4), (64, 1e4), (16, 1e6), (128, 1e6))  # head_dim, theta
ROPE_POSITIONS = (0, 1, 2, 71, 72, 1000, 4095, 8000, 32767)

Arrays = dict[str, np.ndarray]


def tiny_golden(name: str, spec: TtsSpec) -> Arrays:
    """Two sequences of random codes, among them the entries whose usage count is clamped."""
    codes = np.random.default_rng(TINY_SEED).integers(TINY.codebook_size, size=(2, TINY_FRAMES, TINY.num_code_groups))
    codes[0, ::5] = TINY.codebook_size - 2
    codes[1, ::7] = TINY.codebook_size - 1
    with tempfile.TemporaryDirectory() as directory:
        write_tts_checkpoint(Path(directory) / "tiny", spec, TINY_SEED)
        reference = PyTorchReference(Path(directory) / "tiny")
        waveforms = [reference.decode(sequence)[0] for sequence in codes]
    return {f"{name}_codes": codes.astype(np.int16), f"{name}_waveform": np.stack(waveforms)}


def demo_golden() -> Arrays:
    """The codes of the first held-out sentences, spoken greedily, decoded as one sequence."""
    reference = PyTorchReference(DEMO / "checkpoint")
    texts = (DEMO / "heldout.txt").read_text(encoding="utf-8").splitlines()[:DEMO_SENTENCES]
    spoken = [reference.speak(Request(text, "vivian", "English", None, True, 1.05, 110)).codes for text in texts]
    codes = np.concatenate(spoken)
    waveform, _ = reference.decode(codes)
    return {"demo_codes": codes.astype(np.int16), "demo_waveform": waveform[::DEMO_STRIDE]}


def rope_golden() -> Arrays:
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
    torch.set_num_threads(1)
    decoders = tiny_golden("tiny", TINY) | tiny_golden("grouped", GROUPED) | demo_golden()
    np.savez_compressed(ROOT / "tests/graphs/code2wav_golden.npz", **decoders)
    np.savez_compressed(ROOT / "tests/stages/rope_golden.npz", **rope_golden())
