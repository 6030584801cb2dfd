"""``cpspec-infer --engines … --text … --out …``: speech without a request file, and the flags that do not mix."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.cli.runs import (
    OmniRun,
    Result,
    TtsRun,
    assert_one_clear_line,
    command,
    infer,
    infer_here,
    omni_document,
    overflowing,
    tts_document,
)
from tests.conftest import ROOT, Maker

NOWHERE = Path("/nonexistent")  # in place of engines: an error about a flag shows that they were not looked for
TEXT = "hello world"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "hello.wav"


def speak_here(engines: Path, out: Path, *extra: object, text: str = TEXT) -> Result:
    return infer_here("--engines", engines, "--text", text, "--out", out, *extra)


def fed(given: bytes, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """The command with something on its standard input."""
    return subprocess.run(command(*arguments), cwd=ROOT, input=given, capture_output=True, timeout=120, check=False)


def samples_of(path: Path) -> np.ndarray:
    samples, rate = soundfile.read(path, dtype="int16")
    assert rate == 24_000
    found: np.ndarray = samples
    return found


def test_one_text_gives_the_wav_of_a_request_file_with_the_same_values(
    tmp_path: Path, out: Path, demo_engines: Path
) -> None:
    voice = {"speaker": "vivian", "language": "english"}
    out.write_bytes(b"what was here before")
    flags = ("--engines", demo_engines, "--text", TEXT, "--out", out, "--speaker", "Vivian", "--language", "english")
    result = infer(*flags, "--cpSpecVerifySize", 3)
    assert result.returncode == 0, result.stderr
    assert "verify window 3" in result.stderr
    assert result.stdout == ""
    run = TtsRun(tmp_path, demo_engines / "talker")
    requests = [{"messages": [{"role": "assistant", "content": TEXT}]}]
    run.write(voice | {"requests": requests})
    assert infer_here(*run.arguments("--cpSpecVerifySize", 3)).returncode == 0
    expected = samples_of(Path(run.responses[0]["audio_file"]))
    assert expected.size > 0
    np.testing.assert_array_equal(samples_of(out), expected)
    assert not list(tmp_path.glob(".*"))


def test_text_from_standard_input_is_the_text(out: Path, tmp_path: Path, demo_engines: Path) -> None:
    flags = ("--engines", demo_engines, "--speaker", "ryan", "--out")
    assert infer_here(*flags, out, "--text", TEXT).returncode == 0
    piped = tmp_path / "piped.wav"
    result = fed(f"{TEXT}\n".encode(), *flags, piped, "--text", "-")
    assert result.returncode == 0, result.stderr
    assert piped.read_bytes() == out.read_bytes()


def test_a_pipe_takes_the_wav(demo_engines: Path) -> None:
    result = fed(b"", "--engines", demo_engines, "--text", "hello", "--speaker", "ryan", "--out", "/dev/stdout")
    assert result.returncode == 0, result.stderr
    assert result.stdout[:4] == b"RIFF"


def test_omni_prints_the_answer_and_speaks_it(tmp_path: Path, out: Path, omni_engines: Maker) -> None:
    engines = omni_engines("tiny", 1)
    words = "hello world, how are you today?"
    flags = ("--engines", engines, "--text", words, "--out", out, "--speaker", "ethan", "--maxGenerateLength", 6)
    result = infer(*flags, "--cpSpecVerifySize", 3, "--failOnLength")
    run = OmniRun(tmp_path, engines)
    asked = {"requests": [{"messages": [{"role": "user", "content": words}]}], "speaker": "ethan"}
    run.write(asked | {"max_generate_length": 6})
    assert infer_here(*run.arguments("--cpSpecVerifySize", 3)).returncode == 0
    (response,) = run.responses
    assert result.stdout == response["output_text"] + "\n"
    np.testing.assert_array_equal(samples_of(out), samples_of(Path(response["audio_file"])))
    assert response["finish_reason"] == "length"
    assert result.returncode == 3, result.stderr


def test_a_profile_is_written(out: Path, tmp_path: Path, demo_engines: Path) -> None:
    path = tmp_path / "profile.json"
    result = speak_here(demo_engines, out, "--speaker", "ryan", "--profileOutputFile", path, text="hello")
    assert result.returncode == 0, result.stderr
    assert json.loads(path.read_text())["talker"]["total_audio_outputs"] == 1


def test_ctrl_c_leaves_the_old_file_and_exits_130(out: Path, demo_engines: Path) -> None:
    out.write_bytes(b"old")
    text = "the mother is in the kitchen now and the house is big " * 4
    flags = ("--engines", demo_engines, "--speaker", "ryan", "--cpSpecVerifySize", 3)
    words = command(*flags, "--text", text, "--out", out)
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "speculative decoding enabled" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "error: interrupted\n"
    assert process.returncode == 130
    assert out.read_bytes() == b"old"
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_a_failing_model_leaves_the_old_file_and_exits_1(out: Path, tmp_path: Path, synthetic_engines: Maker) -> None:
    copy = Path(shutil.copytree(synthetic_engines("tiny", 54), tmp_path / "engines"))
    overflowing(copy, "lm_head_2.weight")
    out.write_bytes(b"old")
    assert_one_clear_line(speak_here(copy, out, "--speaker", "ryan"), 1, "--text", "frame 0")
    assert out.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("extra", "parts"),
    [
        (("--speaker", "rayn"), ("error: --speaker is 'rayn'", "did you mean 'ryan'?", "known: ryan, vivian")),
        ((), ("error: --speaker is missing", "ryan, vivian")),
        (("--speaker", "ryan", "--language", "englsh"), ("error: --language is 'englsh'", "did you mean 'english'?")),
        (("--speaker", "ryan", "--maxGenerateLength", 5), ("--maxGenerateLength", "belongs to Qwen3-Omni")),
    ],
)
def test_a_value_the_voice_does_not_take_is_named_by_its_flag(
    out: Path, demo_engines: Path, extra: tuple[object, ...], parts: tuple[str, ...]
) -> None:
    assert_one_clear_line(speak_here(demo_engines, out, *extra), 2, *parts)
    assert not out.exists()


@pytest.mark.parametrize("flag", ["--language", "--instruct"])
def test_omni_refuses_what_belongs_to_tts(out: Path, omni_engines: Maker, flag: str) -> None:
    result = speak_here(omni_engines("tiny", 1), out, flag, "english")
    assert_one_clear_line(result, 2, flag, "belongs to Qwen3-TTS", "remove it")


def test_an_unknown_omni_speaker_is_named_by_its_flag(out: Path, omni_engines: Maker) -> None:
    result = speak_here(omni_engines("tiny", 1), out, "--speaker", "chelsi")
    assert_one_clear_line(result, 2, "error: --speaker is 'chelsi'", "did you mean 'chelsie'?")


def test_omni_knows_the_names_of_its_voice_map(tmp_path: Path, out: Path, omni_engines: Maker) -> None:
    copy = Path(shutil.copytree(omni_engines("tiny", 1), tmp_path / "engines"))
    (copy / "talker" / "voice_map.json").write_text('{"host": "ethan"}')
    result = speak_here(copy, out, "--speaker", "hots")
    assert_one_clear_line(result, 2, "error: --speaker is 'hots'", "mean 'host'?", "aiden, chelsie, ethan, host")


def test_instruct_on_the_smallest_voice_is_dropped_aloud(out: Path, demo_engines: Path) -> None:
    result = speak_here(demo_engines, out, "--speaker", "ryan", "--instruct", "Whisper.", text="hello")
    assert result.returncode == 0, result.stderr
    assert "warning: --instruct is ignored: the 0.6B CustomVoice checkpoint" in result.stderr


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (b"", ("--text is empty",)),
        (b" \n", ("--text is empty",)),
        (b"ab\xff", ("--text: standard input is not UTF-8 (byte 2)",)),
        (b"a" * 131_073, ("--text is longer than 131072 bytes", "shorten it")),
    ],
)
def test_standard_input_that_is_no_text_is_one_line(out: Path, given: bytes, parts: tuple[str, ...]) -> None:
    result = fed(given, "--engines", NOWHERE, "--text", "-", "--out", out)
    (line,) = result.stderr.decode().splitlines()
    assert result.returncode == 2
    assert line.startswith("error: ")
    assert all(part in line for part in parts)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--text", "  ", "--out", "a.wav"), ("--text is empty",)),
        (("--text", "a\udcff", "--out", "a.wav"), ("--text holds bytes that are not UTF-8",)),
        (("--text", "a", "--out", "-"), ("--out is -",)),
        (("--text", "a", "--out", "a.mp3"), ("--out a.mp3", ".wav")),
        (
            ("--text", "a", "--out", "a.wav", "--profileOutputFile", "a.wav"),
            ("--profileOutputFile a.wav needs the sam",),
        ),
        (("--text", "a", "--out", "a.wav", "--requireSpeculation"), ("--requireSpeculation needs a verify window",)),
        (("--text", "a", "--out", "a.wav", "--cpSpecVerifySize", "9"), ("--cpSpecVerifySize",)),
        (("--text", "a"), ("--out is missing", "WAV file")),
        (("--out", "a.wav"), ("--text is missing",)),
        ((), ("--text is missing", "--engines")),
    ],
)
def test_a_flag_that_cannot_work_is_one_line_before_the_engines_are_looked_for(
    arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    assert_one_clear_line(infer_here("--engines", NOWHERE, *arguments), 2, *parts)


@pytest.mark.parametrize(
    "flags",
    [
        *(("--inputFile", "in.json"), ("--outputFile", "out.json"), ("--outputAudioDir", "audio")),
        *(("--engineDir", "thinker"), ("--talkerEngineDir", "talker"), ("--code2wavEngineDir", "code2wav")),
        *(("--multimodalEngineDir", "all"), ("--tokenizerDir", "talker"), ("--batchSize", "2"), ("--warmup", "1")),
        *(("--enableAudioOutput",), ("--strict",), ("--dumpOutput",)),
    ],
)
def test_flags_of_request_files_do_not_mix_with_one_text(out: Path, flags: tuple[str, ...]) -> None:
    assert_one_clear_line(speak_here(NOWHERE, out, *flags), 2, flags[0], "cannot be combined with --engines")


@pytest.mark.parametrize("flag", ["--text", "--out", "--speaker", "--language", "--instruct", "--engines"])
def test_flags_of_one_text_do_not_mix_with_a_request_file(tmp_path: Path, flag: str) -> None:
    run = TtsRun(tmp_path, NOWHERE)
    run.write(tts_document())
    assert_one_clear_line(infer_here(*run.arguments(flag, "x")), 2, f"cannot be combined with {flag}")
    assert run.left_nothing()


def test_without_any_way_the_missing_flags_are_named() -> None:
    assert_one_clear_line(infer_here(), 2, "--inputFile is missing", "--engines")
    assert_one_clear_line(infer_here("--text", "a", "--out", "a.wav"), 2, "--engines is missing")


def test_engines_that_are_not_there_are_named(out: Path, demo_engines: Path) -> None:
    assert_one_clear_line(speak_here(NOWHERE, out, "--speaker", "ryan"), 1, f"{NOWHERE / 'talker'}", "does not exist")
    result = speak_here(demo_engines / "talker", out, "--speaker", "ryan")
    assert_one_clear_line(result, 1, "--engines", "give the directory that holds talker")


def test_a_place_that_takes_no_file_is_found_before_a_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "blocker").write_text("")
    result = speak_here(NOWHERE, tmp_path / "blocker" / "hello.wav")
    assert_one_clear_line(result, 2, "--out", "Not a directory")


def test_the_request_files_of_both_families_still_need_their_flags(tmp_path: Path) -> None:
    run = OmniRun(tmp_path, NOWHERE)
    run.write(omni_document())
    assert_one_clear_line(infer_here("--inputFile", run.input), 2, "--talkerEngineDir is missing")
