"""How a command ends: its exit code, and one line per error."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner, Result

from cpspec_trt.cli.run import Command, reports_errors
from cpspec_trt.errors import (
    CheckpointError,
    CpspecError,
    EngineError,
    InputFileError,
    Interrupted,
    UnsupportedError,
    UsageError,
)


def end_with(fault: BaseException | None, code: int | None = None) -> Result:
    @click.command(cls=Command)
    @click.option("--count", type=int, required=True)
    @reports_errors
    def main(count: int) -> int | None:
        if fault is not None:
            raise fault
        return code

    return CliRunner().invoke(main, ["--count", "3"])


@pytest.mark.parametrize(("returned", "expected"), [(None, 0), (0, 0), (3, 3)])
def test_a_command_that_ends_by_itself_sets_its_own_code(returned: int | None, expected: int) -> None:
    result = end_with(None, returned)
    assert (result.exit_code, result.output) == (expected, "")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UsageError, 2),
        (InputFileError, 2),
        (CheckpointError, 1),
        (EngineError, 1),
        (UnsupportedError, 1),
        (Interrupted, 130),
    ],
)
def test_an_error_of_the_package_is_one_line_with_its_exit_code(kind: type[CpspecError], code: int) -> None:
    result = end_with(kind("a.json: field 'x' is 1;\n  write 2"))
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "error: a.json: field 'x' is 1; write 2\n"


def test_an_error_of_the_operating_system_names_the_file() -> None:
    result = end_with(PermissionError(13, "Permission denied", "out/llm"))
    assert (result.exit_code, result.stderr) == (1, "error: out/llm: Permission denied\n")


def test_an_interrupted_command_ends_with_130() -> None:
    result = end_with(KeyboardInterrupt())
    assert (result.exit_code, result.stderr) == (130, "error: interrupted\n")


def test_a_programming_error_keeps_its_traceback() -> None:
    assert isinstance(end_with(ZeroDivisionError()).exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: Missing option '--count'; see --help"),
        (["--count", "three"], "error: Invalid value for '--count': 'three' is not a valid integer; see --help"),
        (["--cuont", "3"], "error: No such option '--cuont'. Did you mean '--count'?; see --help"),
    ],
)
def test_a_usage_error_is_one_line_with_code_2(arguments: list[str], message: str) -> None:
    @click.command(cls=Command)
    @click.option("--count", type=int, required=True)
    def main(count: int) -> None: ...

    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"{message}\n")


def test_a_reader_that_leaves_early_causes_no_traceback() -> None:
    program = (
        "import click\n"
        "from cpspec_trt.cli.run import Command, reports_errors\n"
        "@click.command(cls=Command)\n"
        "@reports_errors\n"
        "def main():\n"
        "    for _ in range(100_000):\n"
        "        click.echo('a line of output')\n"
        "main()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "a line of output\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1
