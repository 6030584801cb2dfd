"""What is said while requests run: whole lines, on a terminal too."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.runs import OmniRun, TtsRun, command, omni_document, saying
from tests.cli.terminal import run_in_terminal, screen
from tests.conftest import Maker


def test_the_terminal_of_the_tests_is_one() -> None:
    assert screen("one\r\ntwo\r\x1b[2Kthree\x1b[1Afour\r\n") == ["one  four", "three"]


def tts(directory: Path, maker: Maker) -> tuple[TtsRun, list[str]]:
    run = TtsRun(directory, maker("tiny", 54) / "talker")
    run.write(saying("hello", "hello world", "world") | {"max_audio_length": 12, "surplus": 1})
    return run, command(*run.arguments("--dumpOutput", "--debug", "--cpSpecVerifySize=3"))


def test_log_lines_stand_whole_above_the_progress_and_nothing_of_it_stays(
    tmp_path: Path, synthetic_engines: Maker
) -> None:
    run, call = tts(tmp_path, synthetic_engines)
    shown = run_in_terminal(call, columns=200)
    assert shown.returncode == 0, shown.raw
    assert "s of audio" in shown.raw, "no progress was drawn, so nothing was tested"
    for index in range(3):
        warning = f"warning: requests[{index}]: ended at the frame cap of 12 frames, the speech may be cut"
        assert sum(line.startswith(warning) for line in shown.lines) == 1, shown.lines
    assert not [line for line in shown.lines if "s of audio" in line], "progress was left standing"
    assert any(line.startswith("info: CodePredictor speculative decoding enabled") for line in shown.lines)
    assert len(run.responses) == 3


def test_dumped_responses_go_to_stdout_also_while_progress_is_drawn(tmp_path: Path, synthetic_engines: Maker) -> None:
    run, call = tts(tmp_path, synthetic_engines)
    shown = run_in_terminal(call)
    decoder, rest, found = json.JSONDecoder(), shown.stdout.strip(), []
    while rest:
        response, end = decoder.raw_decode(rest)
        found.append(response)
        rest = rest[end:].strip()
    assert found == run.responses
    assert "audio_file" not in shown.raw


def test_progress_says_which_request_of_how_many_runs_within_eighty_columns(
    tmp_path: Path, omni_engines: Maker
) -> None:
    run = OmniRun(tmp_path, omni_engines("tiny", 1))
    content = omni_document(max_generate_length=30, max_audio_length=40)
    run.write(content | {"requests": content["requests"] * 2})
    shown = run_in_terminal(command(*run.arguments()))
    assert shown.returncode == 0, shown.raw
    for index in range(2):
        assert f"request {index + 1} of 2" in shown.raw
    assert "…" not in shown.raw, "cut off at eighty columns"


def test_a_single_request_is_not_counted(tmp_path: Path, synthetic_engines: Maker) -> None:
    run = TtsRun(tmp_path, synthetic_engines("tiny", 54) / "talker")
    run.write(saying("hello world"))
    assert "request 1 of 1" not in run_in_terminal(command(*run.arguments())).raw
