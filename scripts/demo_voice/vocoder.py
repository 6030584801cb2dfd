"""Frame-locked source-filter resynthesis.

Every frame (80 ms, 1920 samples at 24 kHz) holds a whole number of pitch periods, and the noise source repeats in every
frame. The waveform of a frame is thus a function of its features alone, without a random phase, and a decoder can
learn it by plain regression, with no discriminator. The price: pitch moves in steps of 12.5 Hz and sounds robotic.

Features of an utterance of T frames, at 200 Hz (16 rows per frame): `mel` [16T, 40] natural log power in mel bands,
`voicing` [16T] in 0..1, and per frame `cycles` [T], the pitch periods it holds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

SAMPLE_RATE = 24_000
HOP = 120  # samples per feature row (5 ms)
FRAME = 1920  # samples per code frame (80 ms)
ROWS_PER_FRAME = FRAME // HOP
MELS = 40
FFT = 1024
BINS = FFT // 2 + 1
LOG_POWER_FLOOR = -18.0
LEAST_CYCLES = 3
PULSE_VOICING = 0.05  # below it a row gets no pulses
NOISE_CENTRE = 256  # samples by which a zero-phase noise response is delayed, to be causal in its buffer

Array = NDArray[np.float64]


def hz_to_mel(hz: Array | float) -> Array:
    """Mel scale with natural logarithm: 1127 ln(1 + hz / 700)."""
    return 1127.0 * np.log(1.0 + np.asarray(hz) / 700.0)


def _mel_filters() -> Array:
    """Triangular filters [MELS, BINS] whose rows sum to one; a filter narrower than a bin takes its nearest bin."""
    bins = hz_to_mel(FREQUENCIES)[None]
    low, centre, high = MEL_EDGES[:-2, None], MEL_EDGES[1:-1, None], MEL_EDGES[2:, None]
    filters = np.maximum(0.0, np.minimum((bins - low) / (centre - low), (high - bins) / (high - centre)))
    for band in np.flatnonzero(filters.sum(1) == 0):
        filters[band, np.argmin(np.abs(bins[0] - MEL_EDGES[band + 1]))] = 1.0
    return filters / filters.sum(1, keepdims=True)


def _noise_source() -> Array:
    """One frame of frozen white noise [FRAME], zero mean, unit deviation."""
    noise = np.random.default_rng(5).standard_normal(FRAME)
    noise -= noise.mean()
    return noise / noise.std()


FREQUENCIES = np.linspace(0.0, SAMPLE_RATE / 2, BINS)
MEL_EDGES = np.linspace(hz_to_mel(40.0), hz_to_mel(8200.0), MELS + 2)
MEL_FILTERS = _mel_filters()
NOISE = _noise_source()
NOISE_WINDOW = np.hanning(2 * HOP + 1)[:-1]
# Share of noise in a fully voiced sound, by frequency: 2 % at the bottom, 77 % at the top.
VOICED_NOISE_SHARE = 0.02 + 0.75 / (1.0 + np.exp(-(FREQUENCIES - 5200.0) / 700.0))

_BAND_POSITION = np.clip((hz_to_mel(FREQUENCIES) - MEL_EDGES[1]) / (MEL_EDGES[2] - MEL_EDGES[1]), 0, MELS - 1)
_BAND = np.minimum(_BAND_POSITION.astype(int), MELS - 2)
_BAND_WEIGHT = _BAND_POSITION - _BAND
_ROLL_OFF = np.where(FREQUENCIES > 8000.0, -(FREQUENCIES - 8000.0) / 400.0, 0.0)  # the bands end near 8 kHz


def envelope_to_mel(power: Array) -> Array:
    """Power envelope [rows, BINS] to log mel power [rows, MELS]."""
    return np.maximum(np.log(power @ MEL_FILTERS.T + 1e-12), LOG_POWER_FLOOR)


def mel_to_log_power(mel: Array) -> Array:
    """Log mel power [rows, MELS] to a log power envelope [rows, BINS], linear between band centres."""
    return mel[:, _BAND] * (1.0 - _BAND_WEIGHT) + mel[:, _BAND + 1] * _BAND_WEIGHT + _ROLL_OFF


def pitch_phase(cycles: NDArray[np.integer]) -> PchipInterpolator:
    """Smooth monotone phase in cycles as a function of the sample, whole at every frame border."""
    borders = np.arange(len(cycles) + 1) * FRAME
    return PchipInterpolator(borders, np.concatenate([[0], np.cumsum(cycles)]))


def lock_pitch(f0: Array) -> tuple[NDArray[np.int64], Array]:
    """Round a continuous f0 track [16T] in Hz to whole cycles per frame: (cycles [T], locked f0 [16T] in Hz)."""
    frames = len(f0) // ROWS_PER_FRAME
    mean_f0 = f0[: frames * ROWS_PER_FRAME].reshape(frames, ROWS_PER_FRAME).mean(1)
    cycles = np.maximum(LEAST_CYCLES, np.round(mean_f0 * FRAME / SAMPLE_RATE)).astype(np.int64)
    row_centres = np.arange(frames * ROWS_PER_FRAME) * HOP + HOP / 2
    return cycles, pitch_phase(cycles).derivative()(row_centres) * SAMPLE_RATE


def _noise_share(voicing: Array) -> Array:
    """Amplitude share of the noise source [rows, BINS] for voicing [rows]."""
    return 1.0 - np.clip(voicing, 0.0, 1.0)[:, None] * (1.0 - VOICED_NOISE_SHARE[None])


def _minimum_phase(log_power: Array) -> NDArray[np.complex128]:
    """Minimum-phase spectrum [rows, BINS] of a log power envelope, by folding its cepstrum."""
    cepstrum = np.fft.irfft(0.5 * log_power, axis=1)
    cepstrum[:, 1 : FFT // 2] *= 2.0
    cepstrum[:, FFT // 2 + 1 :] = 0.0
    return np.exp(np.fft.rfft(cepstrum, axis=1))


def _voiced(mel: Array, voicing: Array, phase: PchipInterpolator, samples: int) -> Array:
    """Pulse train through the minimum-phase envelope [samples]: one impulse response at each whole phase."""
    track = phase(np.arange(samples + 1))
    pulses = np.where(np.floor(track[1:]) > np.floor(track[:-1]))[0] + 1
    # The crossing lies a fraction of a sample before the pulse's index: a linear phase restores it.
    advance = track[pulses] - np.floor(track[pulses])
    advance /= np.maximum(track[pulses] - track[pulses - 1], 1e-9)
    rows = np.minimum(pulses // HOP, len(mel) - 1)
    share = _noise_share(voicing[rows])
    f0 = phase.derivative()(pulses) * SAMPLE_RATE
    spectrum = _minimum_phase(mel_to_log_power(mel[rows]) + np.log(np.maximum(1.0 - share**2, 1e-9)))
    spectrum *= np.exp(2j * np.pi * np.arange(BINS)[None] / FFT * advance[:, None])
    spectrum *= np.sqrt(SAMPLE_RATE / f0)[:, None]  # the same power at every pitch
    spectrum[:, 0] = 0.0
    responses = np.fft.irfft(spectrum, axis=1)
    out = np.zeros(samples + 2 * FFT)
    for index in np.flatnonzero(np.clip(voicing[rows], 0.0, 1.0) > PULSE_VOICING):
        out[pulses[index] : pulses[index] + FFT] += responses[index]
    return out[:samples]


def _noise(mel: Array, voicing: Array, samples: int) -> Array:
    """Frozen noise through the zero-phase envelope [samples]: one 10 ms Hann segment per row, overlapped and added."""
    rows = len(mel)
    source = np.tile(NOISE, samples // FRAME + 2)
    segments = source[(np.arange(rows) * HOP)[:, None] + np.arange(2 * HOP)[None]] * NOISE_WINDOW
    gain = np.exp(0.5 * mel_to_log_power(mel)) * _noise_share(voicing)
    filtered = np.fft.irfft(np.fft.rfft(segments, FFT, axis=1) * gain, axis=1)
    filtered = np.roll(filtered, NOISE_CENTRE, axis=1)
    out = np.zeros(samples + 2 * FFT)
    for row in range(rows):
        out[row * HOP : row * HOP + FFT] += filtered[row]
    return out[NOISE_CENTRE : NOISE_CENTRE + samples]


def synthesise(mel: Array, voicing: Array, cycles: NDArray[np.integer]) -> Array:
    """Waveform [T * FRAME] of the features: mel [16T, MELS], voicing [16T], cycles [T]."""
    samples = len(cycles) * FRAME
    return _voiced(mel, voicing, pitch_phase(cycles), samples) + _noise(mel, voicing, samples)
