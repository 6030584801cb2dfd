"""Arguments of the Python faces, checked and laid out as the request readers lay out a file's values."""

from __future__ import annotations

import math
from dataclasses import replace

from cpspec_trt.errors import UsageError
from cpspec_trt.files.requests import SamplingSettings
from cpspec_trt.kernels.protocol import FilterParameters


def speech_settings(
    seed: int, greedy: bool, repetition_penalty: float | None, max_frames: int | None
) -> SamplingSettings:
    """Settings of a call from Python: what is None stays the checkpoint's default.

    Raises:
        UsageError: a value can never work.
    """
    if not 0 <= seed < 2**64:
        raise UsageError(f"seed is {seed}; it must lie in 0 … 2**64 - 1")
    if repetition_penalty is not None and not 0 < repetition_penalty < math.inf:
        raise UsageError(f"repetition_penalty is {repetition_penalty}; it must be a finite number above 0")
    if max_frames is not None and max_frames < 1:
        raise UsageError(f"max_frames is {max_frames}; it must be at least 1")
    return SamplingSettings(
        talker_temperature=None,
        talker_top_k=None,
        talker_top_p=None,
        repetition_penalty=repetition_penalty,
        subtalker_temperature=None,
        subtalker_top_k=None,
        subtalker_top_p=None,
        max_audio_length=max_frames,
        do_sample=False if greedy else None,
        subtalker_do_sample=False if greedy else None,
        seed=seed,
    )


def chosen_filter(
    name: str, given: FilterParameters | None, default: FilterParameters, greedy: bool
) -> FilterParameters:
    """The filter a caller gave, checked, or the default; greedy if asked for.

    Raises:
        UsageError: a value can never work; the message names it with ``name``.
    """
    filters = default if given is None else given.validated(f"{name}.")
    return replace(filters, do_sample=False) if greedy else filters
