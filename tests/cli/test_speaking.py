"""What people count on when they run cpspec-infer again, alone, side by side, or with a single word."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli import runs
from tests.cli.runs import OmniRun, Run, TtsRun, command, infer_here, omni_document, saying, tts_document
from tests.conftest import ROOT, Maker

SAMPLED_TTS = {"do_sample": True, "subtalker_do_sample": True, "max_audio_length": 20}
SAMPLED_OMNI = {"do_sample": True, "talker_do_sample": True, "subtalker_do_sample": True, "max_audio_length": 20}


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small runs: without a process each."""
    monkeypatch.setattr(runs, "infer", infer_here)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("window", [0, 3])
def test_a_request_alone_with_its_reported_values_says_what_it_said_in_its_file(
    tmp_path: Path, synthetic_engines: Maker, window: int
) -> None:
    run = TtsRun(tmp_path, synthetic_engines("tiny", 54) / "talker")
    content = saying("hello", "hello world", "world") | SAMPLED_TTS
    assert run(content | {"sampling_seed": 900, "batch_size": 3}, "--cpSpecVerifySize", window).returncode == 0
    together = [run.codes(index) for index in range(3)]
    reported = [response["sampling"] for response in run.responses]
    assert [values["sampling_seed"] for values in reported] == [900, 901, 902]
    for index in (2, 0):
        alone = {"speaker": "ryan", "language": "english", "requests": [content["requests"][index] | reported[index]]}
        assert run(alone, "--cpSpecVerifySize", window, "--strict").returncode == 0
        np.testing.assert_array_equal(run.codes(), together[index])


@pytest.mark.usefixtures("in_process")
def test_an_answer_alone_with_its_reported_values_is_the_one_of_its_file(tmp_path: Path, omni_engines: Maker) -> None:
    run = OmniRun(tmp_path, omni_engines("tiny", 1))
    content = omni_document(**SAMPLED_OMNI)
    content["requests"] = content["requests"] * 3
    assert run(content | {"sampling_seed": 900, "batch_size": 2}, "--cpSpecVerifySize=3").returncode == 0
    together = [(response["output_text"], run.codes(index)) for index, response in enumerate(run.responses)]
    assert len({text for text, _ in together}) > 1, "the seeds made no difference"
    alone = {"requests": [content["requests"][2] | run.responses[2]["sampling"]]}
    assert run(alone, "--cpSpecVerifySize=3", "--strict").returncode == 0
    assert run.responses[0]["output_text"] == together[2][0]
    np.testing.assert_array_equal(run.codes(), together[2][1])


def made(run: Run) -> list[tuple[dict[str, Any], bytes, bytes]]:
    """Answers, sound and codes of a run, without what names its directory."""
    found = []
    for response in run.responses:
        files = [Path(response.pop(key)).read_bytes() for key in ("audio_file", "rvq_file")]
        found.append((response, files[0], files[1]))
    return found


def test_two_voices_at_once_are_each_what_they_are_alone(tmp_path: Path, demo_engines: Path) -> None:
    talker = demo_engines / "talker"
    texts = {"ryan": "the house is big", "vivian": "good morning mother"}
    alone, calls = {}, {}
    for speaker, text in texts.items():
        contents = saying(text) | {"speaker": speaker, **SAMPLED_TTS, "sampling_seed": 5}
        for way in ("alone", "together"):
            directory = tmp_path / speaker / way
            directory.mkdir(parents=True)
            run = TtsRun(directory, talker)
            run.write(contents)
            if way == "alone":
                assert run(contents, "--cpSpecVerifySize=3").returncode == 0
                alone[speaker] = made(run)
            else:
                calls[speaker] = (run, command(*run.arguments("--cpSpecVerifySize=3")))
    processes = [subprocess.Popen(call, cwd=ROOT, stderr=subprocess.DEVNULL) for _, call in calls.values()]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    for speaker, (run, _) in calls.items():
        assert made(run) == alone[speaker]
    assert alone["ryan"][0][1] != alone["vivian"][0][1]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("speaker", ["ryan", "vivian"])
def test_a_single_word_ends_by_itself_within_three_seconds(tmp_path: Path, demo_engines: Path, speaker: str) -> None:
    run = TtsRun(tmp_path, demo_engines / "talker")
    words = {"speaker": speaker, "requests": saying("hello", "mother", "kitchen", "now")["requests"]}
    result = run(words, "--cpSpecVerifySize=3", "--failOnLength")
    assert result.returncode == 0, result.stderr
    for response in run.responses:
        assert response["finish_reason"] == "stop"
        assert 300 < response["audio_duration_ms"] < 3000


def test_speech_that_meets_its_cap_is_flagged_in_every_way(tmp_path: Path, demo_engines: Path) -> None:
    run = TtsRun(tmp_path, demo_engines / "talker")
    result = run(tts_document(max_audio_length=5), "--failOnLength")
    assert result.returncode == 3
    assert json.loads(run.output.read_text())["responses"][0]["finish_reason"] == "length"
    assert "ended at the frame cap of 5 frames, the speech may be cut (finish length)" in result.stderr
