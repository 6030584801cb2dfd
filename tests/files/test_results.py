"""The output JSON and the files of one request."""

from __future__ import annotations

import json
import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from cpspec_trt.errors import NumericError, RequestError, UsageError
from cpspec_trt.files.requests import Message
from cpspec_trt.files.results import AudioRecord, ResponseRecord, write_audio, write_codes, write_results

MESSAGES = (Message("assistant", "Grüß Gott."),)


def response(**changes: object) -> ResponseRecord:
    values: dict[str, object] = {
        "request_idx": 0,
        "messages": MESSAGES,
        "finish_reason": "stop",
        "frames": 25,
        "sampling": {"sampling_seed": 42},
        "code_predictor": {"passes": 375},
    }
    return ResponseRecord(**{**values, **changes})  # type: ignore[arg-type]


def test_a_good_response_has_the_reference_keys_and_ours() -> None:
    audio = AudioRecord(Path("out/audio_req0.wav"), 48_000, 24_000, Path("out/rvq_req0.safetensors"))
    assert response(audio=audio).to_json() == {
        "request_idx": 0,
        "output_text": "",
        "messages": [{"role": "assistant", "content": "Grüß Gott."}],
        "finish_reason": "stop",
        "frames": 25,
        "audio_file": "out/audio_req0.wav",
        "audio_samples": 48_000,
        "audio_sample_rate": 24_000,
        "audio_duration_ms": 2000,
        "rvq_file": "out/rvq_req0.safetensors",
        "sampling": {"sampling_seed": 42},
        "code_predictor": {"passes": 375},
    }


def test_a_failed_response_says_failed_and_why_and_has_no_audio_keys() -> None:
    record = response(finish_reason="error", error="unknown speaker", frames=0, code_predictor=None)
    assert record.to_json() == {
        "request_idx": 0,
        "output_text": "FAILED",
        "messages": [{"role": "assistant", "content": "Grüß Gott."}],
        "finish_reason": "error",
        "frames": 0,
        "error": "unknown speaker",
        "sampling": {"sampling_seed": 42},
    }


def test_a_response_without_an_audio_directory_has_no_audio_keys() -> None:
    assert not {"audio_file", "audio_samples", "rvq_file"} & response().to_json().keys()


def test_the_duration_is_whole_milliseconds_rounded_down() -> None:
    duration = AudioRecord(Path("a"), 1920 * 3 - 1, 24_000, Path("b")).to_json()["audio_duration_ms"]
    assert duration == 239
    assert isinstance(duration, int)


def test_the_output_json_is_indented_by_two_and_keeps_every_letter(tmp_path: Path) -> None:
    path = tmp_path / "new" / "output.json"
    write_results(path, Path("input.json"), [response(), response(request_idx=1, finish_reason="length")])
    text = path.read_text(encoding="utf-8")
    assert text.startswith('{\n  "input_file": "input.json",\n  "responses": [\n    {\n      "request_idx": 0,')
    assert "Grüß Gott." in text
    assert [each["finish_reason"] for each in json.loads(text)["responses"]] == ["stop", "length"]
    assert list(path.parent.iterdir()) == [path]


def test_a_file_name_that_is_not_unicode_can_be_reported(tmp_path: Path) -> None:
    write_results(tmp_path / "output.json", Path("in\udcff.json"), [])
    assert json.loads((tmp_path / "output.json").read_text())["input_file"] == "in\\xff.json"


def test_an_output_json_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--outputFile .*file/output\.json: the output JSON cannot be written: Not a"):
        write_results(tmp_path / "file" / "output.json", Path("input.json"), [])


def test_codes_are_the_single_int32_tensor_rvq_codes_of_frames_by_groups(tmp_path: Path) -> None:
    codes = np.arange(12, dtype=np.int64).reshape(4, 3)
    path = tmp_path / "rvq.safetensors"
    write_codes(path, codes.T.copy().T)  # column-major: the file must still be row-major
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    assert header == {"rvq_codes": {"dtype": "I32", "shape": [4, 3], "data_offsets": [0, 48]}}
    assert raw[8 + length :] == codes.astype("<i4").tobytes()


def test_audio_and_codes_are_named_after_the_request(tmp_path: Path) -> None:
    record = write_audio(tmp_path / "audio", 3, np.zeros(3840, np.float32), np.zeros((2, 16), np.int64), 24_000)
    assert record == AudioRecord(
        tmp_path / "audio" / "audio_req3.wav", 3840, 24_000, tmp_path / "audio" / "rvq_req3.safetensors"
    )
    assert sorted(path.name for path in (tmp_path / "audio").iterdir()) == ["audio_req3.wav", "rvq_req3.safetensors"]
    with wave.open(str(record.audio_file)) as file:
        assert file.getnframes() == 3840


def test_a_broken_waveform_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(NumericError):
        write_audio(tmp_path, 0, np.full(4, np.nan, np.float32), np.zeros((1, 16), np.int64), 24_000)
    assert list(tmp_path.iterdir()) == []


def test_an_audio_directory_that_cannot_be_written_fails_the_request_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match=r"file: cannot write audio_req3\.wav and rvq_req3.*: .*--outputAudioDir"):
        write_audio(tmp_path / "file", 3, np.zeros(4, np.float32), np.zeros((1, 16), np.int64), 24_000)
