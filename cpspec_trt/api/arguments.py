"""Arguments of the Python faces, checked and laid out as the request readers lay out a file's values."""

from __future__ import annotations

from dataclasses import replace

from cpspec_trt.errors import UsageError
from cpspec_trt.files.request_schema import LEAST_PENALTY, MOST_PENALTY
from cpspec_trt.files.requests import SamplingSettings
from cpspec_trt.kernels.protocol import FilterParameters


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is no whole number of a range.

    Raises:
        UsageError: names the argument, the value and the range.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise UsageError(f"{name} is {value!r:.40}; give a whole number in {low} … {high}")


def check_text(name: str, value: object) -> None:
    """Refuse what is neither a string nor None.

    Raises:
        UsageError: names the argument and the value.
    """
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} is {value!r:.40}; give a string")


def speech_settings(
    seed: int, greedy: bool, repetition_penalty: float | None, max_frames: int | None
) -> SamplingSettings:
    """Settings of a call from Python: what is None stays the checkpoint's default.

    Raises:
        UsageError: a value can never work.
    """
    check_whole("seed", seed, 0, 2**64 - 1)
    if repetition_penalty is not None and not LEAST_PENALTY <= repetition_penalty <= MOST_PENALTY:
        raise UsageError(
            f"repetition_penalty is {repetition_penalty!r}; it must lie in {LEAST_PENALTY:g} … {MOST_PENALTY:g}"
        )
    if max_frames is not None:
        check_whole("max_frames", max_frames, 1, 2**31 - 1)
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
