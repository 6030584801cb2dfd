"""Waveforms as WAV files: mono, 16-bit PCM, a 44-byte header."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from cpspec_trt.errors import NumericError
from cpspec_trt.files.atomic import atomic_file

SAMPLE_RATE = 24_000  # Hz, of both code2wav families


def to_pcm16(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """Clamp to [-1, 1], scale by 32767 and truncate toward zero, in fp32.

    Args:
        samples: float32 [N].

    Returns:
        int16 [N].

    Raises:
        NumericError: a sample is NaN or infinite; the message gives its index.
    """
    broken = np.flatnonzero(~np.isfinite(samples))
    if broken.size:
        raise NumericError(
            f"the waveform is {samples[broken[0]]} at sample {broken[0]} ({broken.size} of {samples.size} samples are "
            "not finite); nothing was written"
        )
    # Conversion to an integer type truncates toward zero.
    return (np.clip(samples, -1, 1).astype(np.float32) * np.float32(32767)).astype(np.int16)


def write_wav(path: Path, samples: npt.NDArray[np.float32], sample_rate: int) -> None:
    """Write float32 [N] samples in [-1, 1]; the file appears under its name only when it is complete.

    Raises:
        NumericError: a sample is NaN or infinite.
        OSError: the file cannot be written.
    """
    encoded = io.BytesIO()
    soundfile.write(encoded, to_pcm16(samples), sample_rate, subtype="PCM_16", format="WAV")
    with atomic_file(path) as temporary:
        temporary.write_bytes(encoded.getvalue())
