"""The runs over one implementation take tests from every file, or fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kernels.selection import ELSEWHERE, suite, without_tests

HEAD = "import pytest\n@pytest.fixture(params=['cpu avx2', 'emulated'])\ndef native(request): return request.param\n"
BOTH = HEAD + "def test_one(native): pass\n"
HOLE = HEAD + "def test_all_of_them_in_a_loop(): pass\n"
LONG = HEAD + "@pytest.mark.long\ndef test_one(native): pass\n"


def _run(folder: Path, implementation: str, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = suite(implementation, "-v", "-m", "not long", "-c", ROOT / "pyproject.toml", "--rootdir", ROOT, folder)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("implementation", ["emulated", "cpu"])
def test_only_the_tests_of_the_implementation_run(tmp_path: Path, implementation: str) -> None:
    done = _run(tmp_path, implementation, one=BOTH, two=BOTH)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed, 2 deselected" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("other", [HOLE, LONG], ids=["unparametrised", "long"])
def test_a_file_without_a_test_of_the_implementation_ends_the_run(tmp_path: Path, other: str) -> None:
    done = _run(tmp_path, "emulated", one=BOTH, two=other)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no test of 'emulated' was collected from " in done.stderr
    assert "test_two.py" in done.stderr
    assert "test_one.py" not in done.stderr


def test_an_implementation_that_no_test_knows_ends_the_run(tmp_path: Path) -> None:
    done = _run(tmp_path, "emu", one=BOTH)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no test of 'emu' was collected" in done.stderr


def test_files_about_something_else_are_excused_and_exist() -> None:
    names = {f"tests/kernels/test_{name}.py" for name in ("heads", "oracle", "philox", "rules_oracle")}
    assert without_tests(names, []) == ["tests/kernels/test_heads.py"]
    assert [name for name in ELSEWHERE if not (ROOT / name).is_file()] == []
