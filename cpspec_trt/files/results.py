"""What a run leaves behind: the output JSON and, per request, a wav and its RVQ codes.

The JSON has the keys of ``qwen3_tts_inference`` plus our own (``finish_reason``, ``error``,
``frames``, ``sampling``, ``code_predictor``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from cpspec_trt.errors import RequestError, UsageError
from cpspec_trt.files.atomic import atomic_file
from cpspec_trt.files.audio import write_wav
from cpspec_trt.files.json_io import write_json_atomic
from cpspec_trt.files.requests import Message

FinishReason = Literal["stop", "length", "error"]
FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class AudioRecord:
    """The files of one request."""

    audio_file: Path
    audio_samples: int
    audio_sample_rate: int  # Hz
    rvq_file: Path

    def to_json(self) -> dict[str, Any]:
        """The reference's audio keys; the duration in whole milliseconds, rounded down."""
        return {
            "audio_file": _text(self.audio_file),
            "audio_samples": self.audio_samples,
            "audio_sample_rate": self.audio_sample_rate,
            "audio_duration_ms": self.audio_samples * 1000 // self.audio_sample_rate,
            "rvq_file": _text(self.rvq_file),
        }


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """The answer to one request.

    Attributes:
        request_idx: position of the request in the file.
        messages: the request's messages.
        finish_reason: stop (EOS), length (frame cap) or error.
        frames: frames produced.
        sampling: effective values and seed.
        code_predictor: speculation statistics; None if no frame was begun.
        audio: the files written; None without an audio directory or after an error.
        error: why the request failed; set exactly when ``finish_reason`` is error.
    """

    request_idx: int
    messages: tuple[Message, ...]
    finish_reason: FinishReason
    frames: int
    sampling: Mapping[str, Any]
    code_predictor: Mapping[str, Any] | None
    audio: AudioRecord | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The element of ``responses``; keys without a value are left out."""
        record: dict[str, Any] = {
            "request_idx": self.request_idx,
            "output_text": FAILED if self.finish_reason == "error" else "",
            "messages": [{"role": message.role, "content": message.content} for message in self.messages],
            "finish_reason": self.finish_reason,
            "frames": self.frames,
        }
        if self.error is not None:
            record["error"] = self.error
        if self.audio is not None:
            record |= self.audio.to_json()
        record["sampling"] = dict(self.sampling)
        if self.code_predictor is not None:
            record["code_predictor"] = dict(self.code_predictor)
        return record


class Response(Protocol):
    """The answer to one request of either tool."""

    def to_json(self) -> dict[str, Any]:
        """The element of ``responses``."""


def write_results(path: Path, input_file: Path, responses: Sequence[Response], indent: int = 2) -> None:
    """Write the output JSON in one step.

    Raises:
        UsageError: the file cannot be written.
    """
    document = {"input_file": _text(input_file), "responses": [response.to_json() for response in responses]}
    try:
        write_json_atomic(path, document, indent)
    except OSError as fault:
        raise UsageError(
            f"--outputFile {path}: the output JSON cannot be written: {fault.strerror}; give another place"
        ) from None


def write_audio(
    directory: Path,
    request_idx: int,
    samples: npt.NDArray[np.float32],
    codes: npt.NDArray[np.integer[Any]],
    sample_rate: int,
    slot: int | None = None,
) -> AudioRecord:
    """Write ``audio_req{N}.wav`` and ``rvq_req{N}.safetensors`` into ``directory`` (created if missing).

    Args:
        directory: the audio directory.
        request_idx: N; of Qwen3-Omni the index of the request's batch group.
        samples: float32 [samples] in [-1, 1].
        codes: integers [frames, groups].
        sample_rate: Hz.
        slot: of Qwen3-Omni: the request's place in its group, which adds ``_batch{slot}`` to both names.

    Raises:
        NumericError: a sample is NaN or infinite; no file is written.
        RequestError: a file cannot be written.
    """
    stem = f"req{request_idx}" if slot is None else f"req{request_idx}_batch{slot}"
    audio_file = directory / f"audio_{stem}.wav"
    rvq_file = directory / f"rvq_{stem}.safetensors"
    try:
        write_wav(audio_file, samples, sample_rate)
        write_codes(rvq_file, codes)
    except OSError as fault:
        raise RequestError(
            f"{directory}: cannot write {audio_file.name} and {rvq_file.name}: {fault.strerror}; "
            "give a writable --outputAudioDir with free space"
        ) from None
    return AudioRecord(audio_file, int(samples.size), sample_rate, rvq_file)


def write_codes(path: Path, codes: npt.NDArray[np.integer[Any]]) -> None:
    """Write codes [frames, groups] as the single INT32 tensor ``rvq_codes``.

    Raises:
        OSError: the file cannot be written.
    """
    encoded = safetensors.numpy.save({"rvq_codes": np.ascontiguousarray(codes, dtype=np.int32)})
    with atomic_file(path) as temporary:
        temporary.write_bytes(encoded)


def _text(path: Path) -> str:
    """A path as JSON can hold it; bytes that are not UTF-8 appear escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
