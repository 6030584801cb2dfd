"""WAV files, read back byte by byte and by the standard library."""

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.errors import NumericError
from cpspec_trt.files.audio import SAMPLE_RATE, to_pcm16, write_wav


@pytest.mark.parametrize("count", [0, 1, 1920, 24_001])
def test_a_wav_has_the_44_byte_header_of_mono_16_bit_pcm_at_24_khz(tmp_path: Path, count: int) -> None:
    path = tmp_path / "new" / "a.wav"
    write_wav(path, np.zeros(count, np.float32), SAMPLE_RATE)
    raw = path.read_bytes()
    size = 2 * count
    # RIFF header, 16-byte fmt chunk (PCM, 1 channel, rate, bytes/s, block, bits), data chunk.
    expected = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 1, 24_000, 48_000, 2, 16, b"data", size
    )
    assert raw[:44] == expected
    assert len(raw) == 44 + size


def test_samples_are_clamped_scaled_by_32767_and_truncated_toward_zero() -> None:
    samples = np.array([0, 1, -1, 1.5, -7, 0.5, -0.5, 1.9 / 32767, -1.9 / 32767, 0.9 / 32767], np.float32)
    expected = [0, 32767, -32767, 32767, -32767, 16383, -16383, 1, -1, 0]
    assert to_pcm16(samples).tolist() == expected


def test_the_standard_library_reads_back_what_was_written(tmp_path: Path) -> None:
    samples = np.sin(np.arange(4800, dtype=np.float32) * 0.05)
    path = tmp_path / "tone.wav"
    write_wav(path, samples, SAMPLE_RATE)
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        read = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    error = samples * np.float32(32767) - read
    assert read.size == samples.size
    assert np.all(np.abs(error) < 1)
    assert np.all(error * np.sign(samples) >= 0)  # truncation never moves away from zero


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_sample_that_is_not_finite_is_named_and_nothing_is_written(tmp_path: Path, value: float) -> None:
    samples = np.zeros(100, np.float32)
    samples[[7, 70]] = value
    path = tmp_path / "a.wav"
    path.write_bytes(b"earlier")
    with pytest.raises(NumericError, match=rf"is {value} at sample 7 \(2 of 100 samples"):
        write_wav(path, samples, SAMPLE_RATE)
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]
