"""Places of results: found wanting before an engine is opened, and never one file for two things."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.cli import runs
from tests.cli.runs import OmniRun, Run, TtsRun, assert_one_clear_line, infer, omni_document, tts_document
from tests.conftest import Maker

NOWHERE = Path("/nonexistent")  # in place of engines: an error about a flag shows that they were not looked for


@pytest.fixture(params=["tts", "omni"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TtsRun | OmniRun:
    monkeypatch.setattr(runs, "infer", runs.infer_here)
    return TtsRun(tmp_path, NOWHERE / "talker") if request.param == "tts" else OmniRun(tmp_path, NOWHERE)


def document_of(run: Run) -> dict[str, object]:
    return tts_document() if isinstance(run, TtsRun) else omni_document()


FLAGS = ["--outputFile", "--outputAudioDir", "--profileOutputFile"]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("blocker/inside", "Not a directory"),
        ("blocker/deep/inside", "Not a directory"),
        ("/proc/none/inside", "No such file or directory"),
        ("x" * 300 + "/inside", "File name too long"),
    ],
)
def test_a_place_that_cannot_be_written_is_a_usage_error_before_engines_are_looked_for(
    tmp_path: Path, run: TtsRun | OmniRun, flag: str, place: str, reason: str
) -> None:
    (tmp_path / "blocker").write_text("precious")
    target = tmp_path / place
    assert_one_clear_line(run(document_of(run), flag, target), 2, f"{flag} {target}: cannot be written: {reason}")
    assert (tmp_path / "blocker").read_text() == "precious"
    assert run.left_nothing()


@pytest.mark.parametrize(("flag", "kind"), [("--outputFile", "directory"), ("--outputAudioDir", "file")])
def test_a_file_where_a_directory_belongs_and_the_other_way_round_is_a_usage_error(
    tmp_path: Path, run: TtsRun | OmniRun, flag: str, kind: str
) -> None:
    target = tmp_path / "there"
    target.mkdir() if kind == "directory" else target.write_text("")
    assert_one_clear_line(run(document_of(run), flag, target), 2, flag, f"is a {kind}")


@pytest.mark.parametrize("flag", [*FLAGS, "--inputFile", "--talkerEngineDir", "--code2wavEngineDir"])
def test_an_empty_path_is_a_usage_error(run: TtsRun | OmniRun, flag: str) -> None:
    assert_one_clear_line(run(document_of(run), flag, ""), 2, flag, "the path is empty")


@pytest.mark.parametrize("way", ["itself", "symbolic link", "hard link", "another spelling"])
@pytest.mark.parametrize("flag", ["--outputFile", "--profileOutputFile"])
def test_the_request_file_is_never_written_over(tmp_path: Path, run: TtsRun | OmniRun, flag: str, way: str) -> None:
    run.write("{}")
    target = {
        "itself": run.input,
        "symbolic link": tmp_path / "link",
        "hard link": tmp_path / "link",
        "another spelling": tmp_path / "none" / ".." / run.input.name,
    }[way]
    if way == "symbolic link":
        target.symlink_to(run.input)
    if way == "hard link":
        os.link(run.input, target)
    result = run(document_of(run), flag, target)
    assert_one_clear_line(result, 2, f"{flag} {target}: --inputFile {run.input} needs the same place")
    assert "requests" in run.input.read_text()


@pytest.mark.parametrize(
    ("output", "profile", "audio"),
    [("a", "a", "b"), ("a", "a/b", "c"), ("a/b", "a", "c"), ("a", "b", "a"), ("a", "b", "a/c"), ("a", "b", "b/c/d")],
)
def test_two_results_never_need_the_same_place(
    tmp_path: Path, run: TtsRun | OmniRun, output: str, profile: str, audio: str
) -> None:
    places = {"--outputFile": output, "--profileOutputFile": profile, "--outputAudioDir": audio}
    result = run(document_of(run), *(word for flag, name in places.items() for word in (flag, tmp_path / name)))
    assert_one_clear_line(result, 2, "needs the same place; give another file")


def test_results_may_go_to_devices_and_links_which_stay(tmp_path: Path, synthetic_engines: Maker) -> None:
    run = TtsRun(tmp_path, synthetic_engines("tiny", 54) / "talker")
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to("real/output.json")
    result = run(tts_document(), "--outputFile", tmp_path / "link.json", "--profileOutputFile", os.devnull)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "link.json").is_symlink()
    run.output = tmp_path / "real" / "output.json"
    assert run.responses[0]["frames"] == 6
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_results_can_be_piped_on(tmp_path: Path, synthetic_engines: Maker) -> None:
    run = TtsRun(tmp_path, synthetic_engines("tiny", 54) / "talker")
    result = run(tts_document(), "--outputFile", "/dev/stdout")
    assert result.returncode == 0, result.stderr
    assert '"frames": 6' in result.stdout


def test_one_device_may_be_read_and_written() -> None:
    result = infer("--inputFile", "/dev/null", "--talkerEngineDir", NOWHERE, "--outputFile", "/dev/null")
    assert_one_clear_line(result, 2, "/dev/null: not JSON")


def test_input_that_cannot_be_answered_creates_no_directory(run: TtsRun | OmniRun) -> None:
    assert run({"requests": []}).returncode == 2
    assert not run.audio.exists()
    assert not run.output.parent.exists()
