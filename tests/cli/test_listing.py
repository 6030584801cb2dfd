"""``cpspec-infer --listVoices``: what a request may say, read from the Talker's small files alone."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.runs import assert_one_clear_line, command, infer, infer_here, saying
from tests.conftest import ROOT, Maker


@pytest.fixture
def talker_alone(tmp_path: Path) -> Callable[[Path], Path]:
    """Engines of which nothing is left but the Talker's config."""

    def copy(engines: Path) -> Path:
        (tmp_path / "engines" / "talker").mkdir(parents=True)
        shutil.copy(engines / "talker" / "config.json", tmp_path / "engines" / "talker")
        return tmp_path / "engines"

    return copy


def listed(*arguments: object) -> list[list[str]]:
    result = infer_here("--listVoices", *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_every_speaker_and_language_of_the_engines_is_a_plain_line(
    synthetic_engines: Maker, talker_alone: Callable[[Path], Path]
) -> None:
    engines = talker_alone(synthetic_engines("tiny", 54))
    config = json.loads((engines / "talker" / "config.json").read_text())
    found = listed("--engines", engines)
    assert [name for kind, name, _ in found if kind == "speaker"] == sorted(config["speakers"])
    assert [name for kind, name, _ in found if kind == "language"] == ["auto", *sorted(config["languages"])]
    notes = {name: note for _, name, note in found}
    assert config["dialects"], "the synthetic checkpoint has a speaker with a dialect"
    for speaker, dialect in config["dialects"].items():
        assert notes[speaker] == f"speaks {dialect} if the language is auto or chinese"
        assert speaker in notes[dialect]
    assert listed("--talkerEngineDir", engines / "talker") == found


def test_names_of_the_voice_map_are_listed_and_speak(tmp_path: Path, synthetic_engines: Maker) -> None:
    copy = Path(shutil.copytree(synthetic_engines("tiny", 54), tmp_path / "engines"))
    (copy / "talker" / "voice_map.json").write_text('{"Narrator": "ryan"}')
    assert ["speaker", "narrator", "ryan, by voice_map.json"] in listed("--engines", copy)
    source = tmp_path / "in.json"
    source.write_text(json.dumps(saying("hello") | {"speaker": "narrator"}))
    assert infer_here("--inputFile", source, "--talkerEngineDir", copy / "talker").returncode == 0


def test_omni_lists_its_speakers_and_the_default(omni_engines: Maker, talker_alone: Callable[[Path], Path]) -> None:
    engines = talker_alone(omni_engines("tiny", 1))
    expected = [["speaker", "aiden", ""], ["speaker", "chelsie", "the default"], ["speaker", "ethan", ""]]
    assert listed("--engines", engines) == expected
    assert listed("--engineDir", engines / "thinker", "--talkerEngineDir", engines / "talker") == expected


def test_voice_design_says_where_the_voice_comes_from(
    synthetic_engines: Maker, talker_alone: Callable[[Path], Path]
) -> None:
    engines = talker_alone(synthetic_engines("tiny", 54))
    path = engines / "talker" / "config.json"
    config = json.loads(path.read_text()) | {"model_type": "voice_design", "speakers": {}, "dialects": {}}
    path.write_text(json.dumps(config))
    result = infer_here("--listVoices", "--engines", engines)
    assert result.returncode == 0, result.stderr
    assert "no named speakers: describe the voice with --instruct" in result.stderr
    assert "speaker\t" not in result.stdout


def test_a_base_checkpoint_is_refused_by_name(synthetic_engines: Maker, talker_alone: Callable[[Path], Path]) -> None:
    engines = talker_alone(synthetic_engines("tiny", 54))
    path = engines / "talker" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "base"}))
    result = infer_here("--listVoices", "--engines", engines)
    assert_one_clear_line(result, 1, "Base checkpoint", "use a CustomVoice or VoiceDesign checkpoint")


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        ((), 2, ("--listVoices needs the engines", "--engines")),
        (("--engineDir", "x"), 2, ("--listVoices needs the engines", "--talkerEngineDir")),
        (("--engines", "x", "--talkerEngineDir", "y"), 2, ("--talkerEngineDir cannot be combined with --engines",)),
        (("--engines", "x", "--text", "hello"), 2, ("--text cannot be combined with --listVoices",)),
        (("--engines", "x", "--inputFile", "in.json"), 2, ("--inputFile cannot be combined with --listVoices",)),
        (("--engines", "/nonexistent"), 1, ("/nonexistent/talker", "does not exist")),
    ],
)
def test_a_list_without_engines_or_with_more_to_do_is_refused(
    arguments: tuple[str, ...], code: int, parts: tuple[str, ...]
) -> None:
    assert_one_clear_line(infer_here("--listVoices", *arguments), code, *parts)


def test_the_list_can_be_piped(demo_engines: Path) -> None:
    result = infer("--listVoices", "--engines", demo_engines)
    assert result.stdout == "speaker\tryan\t\nspeaker\tvivian\t\nlanguage\tauto\tthe default\nlanguage\tenglish\t\n"


def test_a_closed_standard_output_is_no_error(demo_engines: Path) -> None:
    words = ["sh", "-c", 'exec "$@" >&-', "sh", *command("--listVoices", "--engines", demo_engines)]
    done = subprocess.run(words, cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
