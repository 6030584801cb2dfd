"""The compatibility table says what the reader and the command lines really do."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from cpspec_trt.errors import InputFileError
from cpspec_trt.files.compatibility import BUILD, COMMANDS, INFER, OMNI, ROWS, Row, Where, render, rows_for
from cpspec_trt.files.requests import read_tts_requests

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
MAINS = {INFER: "cpspec_trt.cli.infer", BUILD: "cpspec_trt.cli.build"}

# An accepted value of every used field of a request file.
VALID: dict[str, Any] = {
    "batch_size": 2,
    "talker_temperature": 0.7,
    "talker_top_k": 40,
    "talker_top_p": 0.9,
    "repetition_penalty": 1.2,
    "subtalker_temperature": 0.8,
    "subtalker_top_k": 30,
    "subtalker_top_p": 0.7,
    "max_audio_length": 100,
    "speaker": "ryan",
    "language": "english",
    "instruct": "Calm.",
    "non_streaming_mode": False,
    "do_sample": False,
    "subtalker_do_sample": False,
    "sampling_seed": 7,
}
# Fields that every request file has.
ALWAYS = {"requests", "messages", "role", "content", "type", "text"}
FIELDS: tuple[Where, ...] = ("file field", "request field", "message field", "content item field")


def rows_with(status: str) -> list[Any]:
    """(where, name, row) of every field that the request reader decides by a row of this status."""
    return [
        pytest.param(where, name, row, id=f"{where}-{name}")
        for where in FIELDS
        for name, row in rows_for(INFER, where).items()
        if row.status == status
    ]


def write_with(directory: Path, where: Where, name: str, value: Any) -> Path:
    """A request file with one more field at the given level."""
    item: dict[str, Any] = {"type": "text", "text": "Hi."}
    message: dict[str, Any] = {"role": "assistant", "content": [item]}
    request: dict[str, Any] = {"messages": [message]}
    document: dict[str, Any] = {"requests": [request]}
    level = {
        "file field": document,
        "request field": request,
        "message field": message,
        "content item field": item,
    }[where]
    level[name] = value
    path = directory / "input.json"
    path.write_text(json.dumps(document))
    return path


def test_the_committed_page_is_the_rendered_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == render()


def test_the_module_prints_the_page() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "cpspec_trt.files.compatibility"],
        capture_output=True,
        encoding="utf-8",
        check=True,
        cwd=PAGE.parents[1],
    )
    assert printed.stdout == render()


def test_no_name_stands_twice_for_one_tool() -> None:
    names = [(row.tool, row.where, name) for row in ROWS for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))


# Counted by hand from the usage texts and documented inputs of the reference's tools.
@pytest.mark.parametrize(
    ("tool", "where", "count"),
    [
        ("qwen3_tts_inference", "flag", 17),
        ("qwen3_tts_inference", "file field", 18),
        ("qwen3_tts_inference", "request field", 6),
        ("llm_inference", "flag", 42),
        ("llm_inference", "file field", 25),
        ("llm_inference", "request field", 10),
        ("llm_build", "flag", 15),
        ("audio_build", "flag", 9),
    ],
)
def test_the_table_covers_every_name_of_the_reference(tool: str, where: str, count: int) -> None:
    assert sum(row.tool == tool and row.where == where for row in ROWS) == count


@pytest.mark.parametrize(("where", "name", "row"), rows_with("used"))
def test_a_used_field_is_accepted_in_silence_and_arrives(tmp_path: Path, where: Where, name: str, row: Row) -> None:
    if name in ALWAYS:
        file = read_tts_requests(write_with(tmp_path, "file field", "batch_size", 1), strict=True)
        assert file.requests[0].text == "Hi."
    else:
        file = read_tts_requests(write_with(tmp_path, where, name, VALID[name]), strict=True)
        request = file.requests[0]
        attribute = "seed" if name == "sampling_seed" else name
        (holder,) = (each for each in (file, request, request.settings) if hasattr(each, attribute))
        assert getattr(holder, attribute) == VALID[name]
    assert file.warnings == ()


@pytest.mark.parametrize(("where", "name", "row"), rows_with("refused"))
def test_a_refused_field_is_refused_with_the_note(tmp_path: Path, where: Where, name: str, row: Row) -> None:
    path = write_with(tmp_path, where, name, "something")
    with pytest.raises(InputFileError) as caught:
        read_tts_requests(path, strict=False)
    assert f"{name} is 'something': {row.note}; remove the field" in str(caught.value)


@pytest.mark.parametrize(("where", "name", "row"), rows_with("ignored"))
def test_an_ignored_field_warns_with_the_note(tmp_path: Path, where: Where, name: str, row: Row) -> None:
    path = write_with(tmp_path, where, name, not row.harmless[0])
    (warning,) = read_tts_requests(path, strict=True).warnings
    assert f"{name} is " in warning
    assert warning.endswith(f" and is ignored: {row.note}")


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        ("file field", "ref_audio", ""),
        ("request field", "ref_text", ""),
        ("file field", "apply_chat_template", True),
        ("file field", "add_generation_prompt", True),
        ("file field", "enable_thinking", False),
    ],
)
def test_the_reference_default_of_a_refused_or_ignored_field_passes_in_silence(
    tmp_path: Path, where: Where, name: str, value: Any
) -> None:
    assert read_tts_requests(write_with(tmp_path, where, name, value), strict=True).warnings == ()


def command_of(name: str) -> click.Command:
    main = importlib.import_module(MAINS[name]).main
    assert isinstance(main, click.Command)
    return main


def options_of(command: click.Command) -> set[str]:
    """Every spelling of every option, --help included."""
    parameters = command.get_params(click.Context(command))
    return {
        spelling
        for parameter in parameters
        if isinstance(parameter, click.Option)
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_stands_in_the_table(command: str) -> None:
    assert options_of(command_of(command)) <= rows_for(command, "flag").keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_used_or_ignored_flag_is_an_option_of_its_command(command: str) -> None:
    expected = {name for name, row in rows_for(command, "flag").items() if row.status != "refused"}
    assert expected <= options_of(command_of(command))


REFUSED_FLAGS = [
    pytest.param(command, name, row, id=f"{command}{name}")
    for command in COMMANDS
    for name, row in rows_for(command, "flag").items()
    if row.status == "refused"
]


@pytest.mark.parametrize(("command", "name", "row"), REFUSED_FLAGS)
def test_a_refused_flag_is_a_usage_error_with_the_note(command: str, name: str, row: Row) -> None:
    arguments = [name, "1"] if row.metavar else [name]
    result = CliRunner().invoke(command_of(command), arguments)
    assert result.exit_code == 2
    assert row.note in result.output
    assert name in result.output


def test_the_omni_tool_is_refused_as_a_whole() -> None:
    assert {row.status for row in ROWS if row.tool == OMNI} == {"refused"}
