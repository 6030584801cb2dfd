"""The answer to one Qwen3-Omni request as it stands in the output JSON (indent 4, see ``write_results``).

The keys are those of ``llm_inference``, the audio keys it documents, and our own (``audio_finish_reason``, ``frames``,
``rvq_file``, ``sampling``, ``code_predictor``, ``error``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cpspec_trt.files.omni_requests import ChatMessage
from cpspec_trt.files.results import AudioRecord, FinishReason

FAILED = "TensorRT Edge LLM cannot handle this request. Fails."
OUTPUT_INDENT = 4
AudioFinishReason = Literal["stop", "length", "nothing_to_say", "error"]


@dataclass(frozen=True, slots=True)
class OmniResponseRecord:
    """The answer to one request.

    Attributes:
        request_idx: position of the request in the file.
        batch_idx: its slot in its batch group.
        messages: the request's messages.
        output_text: what the Thinker wrote; ignored after an error of the Thinker.
        finish_reason: how the text ended: stop (EOS or a stop string), length (token cap) or error.
        formatted_system_prompt: the leading system message as the Thinker saw it, or "".
        formatted_complete_request: the whole prompt.
        generated_token_count: tokens of the Thinker.
        sampling: effective values and seed.
        audio_finish_reason: how the speech ended: stop (EOS), length (frame cap), nothing_to_say (no text, so no
            audio) or error; None without audio output or after an error of the Thinker.
        frames: frames produced; written only with ``audio_finish_reason``.
        code_predictor: speculation statistics; None if no frame was begun.
        audio: the files written; None without an audio directory or without speech.
        error: why text or speech failed; set exactly when one of the two reasons is error.
    """

    request_idx: int
    batch_idx: int
    messages: tuple[ChatMessage, ...]
    output_text: str
    finish_reason: FinishReason
    formatted_system_prompt: str
    formatted_complete_request: str
    generated_token_count: int
    sampling: Mapping[str, Any]
    audio_finish_reason: AudioFinishReason | None = None
    frames: int = 0
    code_predictor: Mapping[str, Any] | None = None
    audio: AudioRecord | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The element of ``responses``; keys of ours without a value are left out."""
        record: dict[str, Any] = {
            "output_text": FAILED if self.finish_reason == "error" else self.output_text,
            "request_idx": self.request_idx,
            "batch_idx": self.batch_idx,
            "finish_reason": self.finish_reason,
            "messages": [message.to_json() for message in self.messages],
            "formatted_system_prompt": self.formatted_system_prompt,
            "formatted_complete_request": self.formatted_complete_request,
            "generated_token_count": self.generated_token_count,
            # The Thinker does not speculate.
            "spec_verify_count": 0,
            "spec_acceptance_length": 0.0,
        }
        if self.error is not None:
            record["error"] = self.error
        if self.audio_finish_reason is not None:
            record |= {"audio_finish_reason": self.audio_finish_reason, "frames": self.frames}
        if self.audio is not None:
            record |= self.audio.to_json()
        record["sampling"] = dict(self.sampling)
        if self.code_predictor is not None:
            record["code_predictor"] = dict(self.code_predictor)
        return record
