"""Flags of the reference tools: refused or ignored with the table's note, silent where they ask for nothing."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from cpspec_trt.cli.infer import main as infer
from cpspec_trt.files.compatibility import INFER, rows_for

FLAGS = rows_for(INFER, "flag")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(infer, [*arguments, "--inputFile", "none.json", "--talkerEngineDir", "none"])


@pytest.mark.parametrize("name", [name for name, row in FLAGS.items() if row.status == "ignored"])
def test_an_ignored_flag_warns_and_the_run_goes_on(name: str) -> None:
    result = run(name, "3") if FLAGS[name].metavar else run(name)
    assert f"warning: {FLAGS[name].name} is ignored: {FLAGS[name].note}" in result.stderr
    assert "none.json" in result.stderr, "the run did not go on to the request file"


@pytest.mark.parametrize("name", [name for name, row in FLAGS.items() if row.harmless])
def test_a_value_that_asks_for_nothing_passes_in_silence(name: str) -> None:
    result = run(f"{name}={FLAGS[name].harmless[0]}")
    assert name not in result.stderr
    assert "none.json" in result.stderr
