"""The answer to a Qwen3-Omni request in the output JSON, and the names of its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.errors import RequestError
from cpspec_trt.files.omni_requests import ChatMessage
from cpspec_trt.files.omni_results import OUTPUT_INDENT, OmniResponseRecord
from cpspec_trt.files.results import AudioRecord, write_audio, write_results

MESSAGES = (ChatMessage("system", "Be brief."), ChatMessage("user", ("Grüß ", "Gott.")))
AUDIO = AudioRecord(Path("out/audio_req2_batch1.wav"), 47_445, 24_000, Path("out/rvq_req2_batch1.safetensors"))
# The keys that the reference writes for every response.
REFERENCE_KEYS = (
    *("output_text", "request_idx", "batch_idx", "finish_reason", "messages"),
    *("formatted_system_prompt", "formatted_complete_request", "generated_token_count"),
    *("spec_verify_count", "spec_acceptance_length"),
)


def response(**changes: object) -> OmniResponseRecord:
    values: dict[str, object] = {
        "request_idx": 5,
        "batch_idx": 1,
        "messages": MESSAGES,
        "output_text": "Hello.",
        "finish_reason": "stop",
        "formatted_system_prompt": "<|im_start|>system\nBe brief.<|im_end|>\n",
        "formatted_complete_request": "…",
        "generated_token_count": 3,
        "sampling": {"sampling_seed": 42},
    }
    return OmniResponseRecord(**{**values, **changes})  # type: ignore[arg-type]


def test_a_spoken_response_has_the_reference_keys_the_documented_audio_keys_and_ours() -> None:
    found = response(audio_finish_reason="stop", frames=25, code_predictor={"passes": 375}, audio=AUDIO).to_json()
    assert found == {
        "output_text": "Hello.",
        "request_idx": 5,
        "batch_idx": 1,
        "finish_reason": "stop",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Grüß "}, {"type": "text", "text": "Gott."}]},
        ],
        "formatted_system_prompt": "<|im_start|>system\nBe brief.<|im_end|>\n",
        "formatted_complete_request": "…",
        "generated_token_count": 3,
        "spec_verify_count": 0,
        "spec_acceptance_length": 0.0,
        "audio_finish_reason": "stop",
        "frames": 25,
        "audio_file": "out/audio_req2_batch1.wav",
        "audio_samples": 47_445,
        "audio_sample_rate": 24_000,
        "audio_duration_ms": 1976,
        "rvq_file": "out/rvq_req2_batch1.safetensors",
        "sampling": {"sampling_seed": 42},
        "code_predictor": {"passes": 375},
    }


def test_a_text_response_has_no_audio_keys() -> None:
    assert list(response().to_json()) == [*REFERENCE_KEYS, "sampling"]


def test_a_failed_request_is_written_with_the_text_of_the_reference_and_why() -> None:
    found = response(finish_reason="error", error="the prompt is too long").to_json()
    assert found["output_text"] == "TensorRT Edge LLM cannot handle this request. Fails."
    assert (found["finish_reason"], found["error"]) == ("error", "the prompt is too long")
    assert list(found) == [*REFERENCE_KEYS, "error", "sampling"]


def test_speech_that_failed_keeps_the_text_and_says_why() -> None:
    found = response(audio_finish_reason="error", error="frame 3: NaN").to_json()
    assert (found["output_text"], found["finish_reason"]) == ("Hello.", "stop")
    assert (found["audio_finish_reason"], found["frames"], found["error"]) == ("error", 0, "frame 3: NaN")
    assert "audio_file" not in found


def test_a_thinker_that_said_nothing_is_a_response_without_audio() -> None:
    found = response(output_text="", audio_finish_reason="nothing_to_say").to_json()
    assert (found["output_text"], found["audio_finish_reason"], found["frames"]) == ("", "nothing_to_say", 0)
    assert not {"audio_file", "error", "code_predictor"} & found.keys()


def test_the_output_json_is_indented_by_four(tmp_path: Path) -> None:
    path = tmp_path / "output.json"
    write_results(path, Path("input.json"), [response()], OUTPUT_INDENT)
    text = path.read_text(encoding="utf-8")
    assert text.startswith(
        '{\n    "input_file": "input.json",\n    "responses": [\n        {\n            "output_text"'
    )
    assert [each["request_idx"] for each in json.loads(text)["responses"]] == [5]


def test_files_are_named_after_the_batch_group_and_the_slot(tmp_path: Path) -> None:
    record = write_audio(tmp_path, 2, np.zeros(3840, np.float32), np.zeros((2, 16), np.int64), 24_000, slot=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audio_req2_batch0.wav", "rvq_req2_batch0.safetensors"]
    assert record.audio_file == tmp_path / "audio_req2_batch0.wav"


def test_a_directory_that_cannot_be_written_is_named_with_both_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match=r"file: cannot write audio_req1_batch3\.wav and rvq_req1_batch3\.safet"):
        write_audio(tmp_path / "file", 1, np.zeros(4, np.float32), np.zeros((1, 16), np.int64), 24_000, slot=3)
