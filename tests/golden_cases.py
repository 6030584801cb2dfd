"""Answers of the PyTorch reference, committed in tests/goldens by scripts/make_goldens.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDENS = Path(__file__).resolve().parent / "goldens"


@dataclass(frozen=True, slots=True)
class GoldenCheckpoint:
    """A synthetic checkpoint with goldens, and the SHA-256 of each of its files."""

    spec: str
    seed: int
    sha256: dict[str, str]


@dataclass(frozen=True, slots=True)
class DecoderCase:
    """Codes int64 [frames, groups] and the whole waveform float32 [samples] the 12 Hz decoder makes of them."""

    name: str
    spec: str
    seed: int
    codes: NDArray[np.int64]
    waveform: NDArray[np.float32]
    sample_rate: int


@dataclass(frozen=True, slots=True)
class SpeechCase:
    """One request, answered greedily.

    The checkpoint is synthetic (``spec``, ``seed``) or, when ``spec`` is None, the demo voice.
    ``codes`` is int64 [frames, groups]. ``waveform`` holds the samples from ``waveform_offset`` to the
    end, ``samples`` counts all of them. ``margin`` is the smallest gap between the best and the second
    best logit of all choices.
    """

    name: str
    spec: str | None
    seed: int | None
    text: str
    speaker: str | None
    language: str
    instruct: str | None
    non_streaming: bool
    repetition_penalty: float
    max_frames: int
    finish_reason: str
    codes: NDArray[np.int64]
    waveform: NDArray[np.float32]
    waveform_offset: int
    samples: int
    sample_rate: int
    margin: float


def golden_checkpoints() -> list[GoldenCheckpoint]:
    """The synthetic checkpoints the other cases were made with."""
    return [GoldenCheckpoint(**entry) for entry in _index()["checkpoints"]]


def speech_cases() -> list[SpeechCase]:
    """Every case from text to samples."""
    return [
        SpeechCase(
            name=case["name"],
            spec=case["checkpoint"].get("spec"),
            seed=case["checkpoint"].get("seed"),
            codes=_array(case["name"], "codes").astype(np.int64),
            waveform=_array(case["name"], "waveform"),
            **case["request"],
            **{key: case[key] for key in ("finish_reason", "waveform_offset", "samples", "sample_rate", "margin")},
        )
        for case in _index()["speech"]
    ]


def decoder_cases() -> list[DecoderCase]:
    """Every case from codes to samples."""
    return [
        DecoderCase(
            name=case["name"],
            **case["checkpoint"],
            codes=_array(case["name"], "codes").astype(np.int64),
            waveform=_array(case["name"], "waveform"),
            sample_rate=case["sample_rate"],
        )
        for case in _index()["decoder"]
    ]


def tensor_layouts() -> dict[str, dict[str, list[int]]]:
    """Spec name -> name -> shape of every tensor in the reference's own modules.

    Those of the speech tokenizer are prefixed with ``speech_tokenizer:``.
    """
    layouts: dict[str, dict[str, list[int]]] = json.loads((GOLDENS / "tensors.json").read_text(encoding="utf-8"))
    return layouts


@cache
def _index() -> dict[str, Any]:
    index: dict[str, Any] = json.loads((GOLDENS / "speech.json").read_text(encoding="utf-8"))
    return index


@cache
def _arrays() -> dict[str, NDArray[Any]]:
    with np.load(GOLDENS / "speech.npz") as file:
        return dict(file.items())


def _array(case: str, what: str) -> NDArray[Any]:
    return _arrays()[f"{case}.{what}"]
