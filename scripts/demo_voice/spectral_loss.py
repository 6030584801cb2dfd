"""The decoder's loss: waveform, short-time spectra at four resolutions, and log mel power."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .vocoder import FFT, MEL_FILTERS

RESOLUTIONS = (256, 512, FFT, 2048)
COMPLEX_WEIGHT, LOG_WEIGHT, MEL_WEIGHT, WAVE_WEIGHT = 0.35, 0.7, 1.4, 0.4
LOG_FLOOR, MEL_FLOOR = 2e-3, 1e-5
_MEL_FILTERS = torch.from_numpy(MEL_FILTERS).float()


@dataclass(frozen=True, slots=True)
class DecoderLoss:
    """The loss and the two parts worth watching."""

    total: Tensor
    wave: Tensor
    mel: Tensor


def _spectrum(wave: Tensor, size: int, window: Tensor) -> Tensor:
    return torch.stft(wave, size, size // 4, size, window, return_complex=True)


def _spectral_terms(target: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """(mean over the resolutions of relative complex, magnitude and log differences; log mel difference)."""
    terms, mel = [], torch.zeros(())
    for size in RESOLUTIONS:
        window = torch.hann_window(size)
        wanted, got = _spectrum(target, size, window), _spectrum(output, size, window)
        wanted_size, got_size = wanted.abs(), got.abs()
        level = wanted_size.mean() + 1e-4
        norm = window.sum().sqrt()
        log_difference = torch.log(wanted_size / norm + LOG_FLOOR) - torch.log(got_size / norm + LOG_FLOOR)
        terms.append(
            COMPLEX_WEIGHT * (wanted - got).abs().mean() / level
            + (wanted_size - got_size).abs().mean() / level
            + LOG_WEIGHT * log_difference.abs().mean()
        )
        if size == FFT:
            powers = [_MEL_FILTERS @ (magnitude / norm) ** 2 for magnitude in (wanted_size, got_size)]
            mel = (torch.log(powers[0] + MEL_FLOOR) - torch.log(powers[1] + MEL_FLOOR)).abs().mean()
    return torch.stack(terms).mean(), mel


def decoder_loss(target: Tensor, output: Tensor) -> DecoderLoss:
    """Loss of `output` against `target`, both [B, samples]."""
    wave = (output - target).abs().mean() / (target.abs().mean() + 1e-4)
    spectral, mel = _spectral_terms(target, output)
    return DecoderLoss(spectral + MEL_WEIGHT * mel + WAVE_WEIGHT * wave, wave.detach(), mel.detach())
