"""``--help`` answers at once: no command loads a heavy module for it."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.conftest import ROOT

COMMANDS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
HEAVY = {
    *("numpy", "pydantic", "rich", "onnxruntime", "onnx", "onnx_graphsurgeon", "ml_dtypes", "matplotlib"),
    *("cuda", "tensorrt", "tensorrt_rtx", "jinja2", "soundfile", "safetensors", "tokenizers", "yaml"),
}
HELP = """
import importlib, sys
module, name = sys.argv[1].split(":")
sys.argv = ["program", "--help"]
try:
    getattr(importlib.import_module(module), name)()
finally:
    print("loaded:", *sorted({name.split(".")[0] for name in sys.modules}))
"""


def loaded_by(script: str, *arguments: str) -> tuple[int, str, set[str]]:
    """Exit code, output and the top-level modules of a process."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    *output, last = done.stdout.splitlines()
    assert last.startswith("loaded:")
    return done.returncode, "\n".join(output), set(last.split()[1:])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_loads_nothing_heavy(command: str) -> None:
    code, output, loaded = loaded_by(HELP, COMMANDS[command])
    assert code == 0
    assert "Usage:" in output
    assert "click" in loaded
    assert not loaded & HEAVY


def test_every_command_has_a_help_test() -> None:
    files = (ROOT / "cpspec_trt" / "cli").glob("*.py")
    with_main = {f"cpspec_trt.cli.{path.stem}" for path in files if "\ndef main(" in path.read_text()}
    assert with_main == {target.split(":")[0] for target in COMMANDS.values()}


def test_importing_the_package_and_its_rooms_loads_nothing_heavy() -> None:
    rooms = sorted(path.parent.name for path in (ROOT / "cpspec_trt").glob("*/__init__.py"))
    script = "import cpspec_trt, importlib, sys\n"
    script += "".join(f"importlib.import_module('cpspec_trt.{room}')\n" for room in rooms)
    script += "print('loaded:', *sorted({name.split('.')[0] for name in sys.modules}))"
    code, _, loaded = loaded_by(script)
    assert code == 0
    assert "cpspec_trt" in loaded
    assert not loaded & HEAVY
