"""Answers of the PyTorch reference of Qwen3-Omni, committed in tests/goldens by scripts/make_omni_goldens.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden_cases import GOLDENS, GoldenCheckpoint


@dataclass(frozen=True, slots=True)
class OmniSpeech:
    """Codes int64 [frames, groups], the whole waveform float32 [samples], and how the speech ended."""

    codes: NDArray[np.int64]
    waveform: NDArray[np.float32]
    sample_rate: int
    finish_reason: str


@dataclass(frozen=True, slots=True)
class OmniCase:
    """One conversation, answered greedily.

    ``speaker`` and ``speech`` are None when only text was asked for. ``token_ids`` are the generated ones, with
    the end of the message when the text ends by itself. ``margin`` is the smallest gap between the best and the
    second best logit of all choices, ``routing_margin`` the smallest between an expert chosen and one left out.
    """

    name: str
    spec: str
    seed: int
    messages: list[dict[str, Any]]
    speaker: str | None
    max_new_tokens: int
    max_frames: int
    repetition_penalty: float
    token_ids: list[int]
    text: str
    finish_reason: str
    speech: OmniSpeech | None
    margin: float
    routing_margin: float


@dataclass(frozen=True, slots=True)
class Code2WavCase:
    """Codes int64 [frames, groups] and the waveform float32 [samples] that code2wav makes of them as one piece."""

    name: str
    spec: str
    seed: int
    codes: NDArray[np.int64]
    waveform: NDArray[np.float32]
    sample_rate: int


@dataclass(frozen=True, slots=True)
class ThinkerCase:
    """One pass of the Thinker over ``token_ids`` [rows].

    ``accept_hidden`` float32 [rows, hidden] is the state the Talker may take, ``logits`` float32 [vocab] are those
    of the last row.
    """

    name: str
    spec: str
    seed: int
    token_ids: list[int]
    accept_hidden: NDArray[np.float32]
    logits: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LayoutDigest:
    """The number of tensors in files, and the SHA-256 (hex) of the sorted lines ``name [shape]``."""

    tensors: int
    sha256: str


def omni_golden_checkpoints() -> list[GoldenCheckpoint]:
    """The synthetic checkpoints the other cases were made with."""
    return [GoldenCheckpoint(**entry) for entry in _index()["checkpoints"]]


def omni_cases() -> list[OmniCase]:
    """Every case from messages to text and samples."""
    facts = ("name", "token_ids", "text", "finish_reason", "margin", "routing_margin")
    return [
        OmniCase(
            **case["checkpoint"],
            **case["request"],
            **{key: case[key] for key in facts},
            speech=_speech(case["name"], case["speech"]),
        )
        for case in _index()["conversations"]
    ]


def code2wav_cases() -> list[Code2WavCase]:
    """Every case from codes to samples."""
    return [
        Code2WavCase(
            name=case["name"],
            **case["checkpoint"],
            codes=_array(case["name"], "codes").astype(np.int64),
            waveform=_array(case["name"], "waveform"),
            sample_rate=case["sample_rate"],
        )
        for case in _index()["code2wav"]
    ]


def thinker_cases() -> list[ThinkerCase]:
    """Every case of one pass of the Thinker."""
    return [
        ThinkerCase(
            name=case["name"],
            **case["checkpoint"],
            token_ids=case["token_ids"],
            accept_hidden=_array(case["name"], "accept_hidden"),
            logits=_array(case["name"], "logits"),
        )
        for case in _index()["thinker"]
    ]


def omni_tensor_layouts() -> dict[str, dict[str, list[int]]]:
    """Spec name -> name -> shape of every tensor in the reference's own files."""
    layouts: dict[str, dict[str, list[int]]] = _layouts()["listed"]
    return layouts


def omni_layout_digests() -> dict[str, LayoutDigest]:
    """Spec name -> what stands for its list of tensors."""
    return {name: LayoutDigest(**digest) for name, digest in _layouts()["digests"].items()}


def _speech(name: str, facts: dict[str, Any] | None) -> OmniSpeech | None:
    if facts is None:
        return None
    return OmniSpeech(
        codes=_array(name, "codes").astype(np.int64),
        waveform=_array(name, "waveform"),
        sample_rate=facts["sample_rate"],
        finish_reason=facts["finish_reason"],
    )


@cache
def _index() -> dict[str, Any]:
    index: dict[str, Any] = json.loads((GOLDENS / "omni.json").read_text(encoding="utf-8"))
    return index


@cache
def _layouts() -> dict[str, Any]:
    layouts: dict[str, Any] = json.loads((GOLDENS / "omni_tensors.json").read_text(encoding="utf-8"))
    return layouts


@cache
def _arrays() -> dict[str, NDArray[Any]]:
    with np.load(GOLDENS / "omni.npz") as file:
        return dict(file.items())


def _array(case: str, what: str) -> NDArray[Any]:
    return _arrays()[f"{case}.{what}"]
