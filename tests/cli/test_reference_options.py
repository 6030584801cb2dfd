"""Flags of the reference tools, on each way of cpspec-infer: used, refused or ignored as its row of the table says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.files.compatibility import OMNI, TTS, Row, rows_for
from tests.cli.runs import Result, infer_here

# What selects the tool that cpspec-infer stands in for.
SELECTED = {TTS: ["--talkerEngineDir", "none"], OMNI: ["--engineDir", "none", "--outputFile", "none/out.json"]}
# A value that works, where "3" does not; and what else a flag needs.
VALUES = {"--cpSpecVerifySize": "2", "--cpSpecRule": "coupled", "--inputFile": "none.json"}
_TREE = {"--cpSpecTreeWidth": ["--cpSpecVerifySize", "3", "--cpSpecRule", "coupled"]}
NEEDED = _TREE | {"--requireSpeculation": ["--cpSpecVerifySize", "3"]}
NEEDED_OF_OMNI = _TREE | {
    "--requireSpeculation": ["--cpSpecVerifySize", "3", "--enableAudioOutput", "--talkerEngineDir", "none"],
    "--enableAudioOutput": ["--talkerEngineDir", "none"],
}


# Flags that select another way of running, which takes no request file (test_one_text, test_listing).
OTHER_WAYS = ("--engines", "--text", "--out", "--speaker", "--language", "--instruct", "--listVoices")


def flags(status: str) -> list[Any]:
    """(tool, name, row) of every flag that a tool's table gives this status.

    Without --help, which ends the run, --engineDir, which selects the tool, and those of other ways.
    """
    return [
        pytest.param(tool, name, row, id=f"{tool}{name}")
        for tool in SELECTED
        for name, row in rows_for(tool, "flag").items()
        if row.status == status and name not in ("--help", "--engineDir", *OTHER_WAYS)
    ]


def run(tool: str, name: str, row: Row, value: str = "3") -> Result:
    given = [name, VALUES.get(name, value)] if row.metavar else [name]
    needed = (NEEDED_OF_OMNI if tool == OMNI else NEEDED).get(name, [])
    return infer_here("--inputFile", "none.json", *SELECTED[tool], *needed, *given)


MISSING = "error: none.json: the request file does not exist\n"


@pytest.mark.parametrize(("tool", "name", "row"), flags("used"))
def test_a_used_flag_is_taken_in_silence(
    tool: str, name: str, row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(tool, name, row)
    assert (result.returncode, result.stderr) == (2, MISSING)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("tool", "name", "row"), flags("ignored"))
def test_an_ignored_flag_warns_and_the_run_goes_on(tool: str, name: str, row: Row) -> None:
    warning, error = run(tool, name, row).stderr.splitlines()
    assert warning.startswith("warning: --")
    assert name in warning
    assert warning.endswith(f" is ignored: {row.note}")
    assert error + "\n" == MISSING


@pytest.mark.parametrize(("tool", "name", "row"), flags("refused"))
def test_a_refused_flag_is_a_usage_error_with_the_note(tool: str, name: str, row: Row) -> None:
    result = run(tool, name, row)
    assert result.returncode == 2
    (error,) = result.stderr.splitlines()
    assert name in error
    assert error.endswith(f": {row.note.rstrip('.')}; see --help")


HARMLESS = [case for status in ("ignored", "refused") for case in flags(status) if case.values[2].harmless]


@pytest.mark.parametrize(("tool", "name", "row"), HARMLESS)
def test_a_value_that_asks_for_nothing_passes_in_silence(tool: str, name: str, row: Row) -> None:
    for value in row.harmless:
        assert run(tool, name, row, str(value)).stderr == MISSING


@pytest.mark.parametrize(("tool", "name", "row"), [case for case in flags("ignored") if case.values[2].metavar])
def test_a_flag_that_takes_a_value_needs_it(tool: str, name: str, row: Row) -> None:
    result = infer_here("--inputFile", "none.json", *SELECTED[tool], name)
    assert (result.returncode, result.stderr) == (2, f"error: Option '{name}' requires an argument; see --help\n")


def test_there_are_flags_of_every_kind_on_both_ways() -> None:
    for status in ("used", "ignored", "refused"):
        assert {case.values[0] for case in flags(status)} == {TTS, OMNI}
    assert HARMLESS
