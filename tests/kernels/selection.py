"""A pytest plugin that keeps the tests of one implementation and fails where a file has none for it.

    python -m pytest -p tests.kernels.selection --implementation emulated tests/kernels

Runs over another library, another schedule or a device prove something only if every file takes part, so a file
without a test of the implementation ends the run with an error, except those of ``ELSEWHERE`` and of the oracle.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTION = "--implementation"
# Whose parameter is an implementation's name.
FIXTURES = ("kernels", "native", "fast", "cuda")

ORACLE = "_oracle.py"  # ends the names of files about the definition alone
CPU_ALONE = {
    "tests/kernels/test_levels.py": "the CPU library's levels beside one another",
    "tests/kernels/test_native_ids.py": "what the CPU library alone can refuse; devices: test_ids_out_of_range.py",
}
# Files whose tests are the same whatever implementation a run is about, and what they are about instead.
ELSEWHERE = {
    **CPU_ALONE,
    "tests/kernels/test_arrays.py": "how Python passes an array",
    "tests/kernels/test_device.py": "device arrays bound to operations, on a simulated GPU",
    "tests/kernels/test_device_library.py": "finding the CUDA library",
    "tests/kernels/test_faults.py": "what Python says of a faulty row",
    "tests/kernels/test_loading.py": "finding the library",
    "tests/kernels/test_philox.py": "the generator in Python; the libraries': test_elementary.py",
    "tests/kernels/test_protocol.py": "parameters and layouts in Python",
    "tests/kernels/test_selection.py": "this plugin",
    "tests/plugins/cuda/test_compilation.py": "nvcc",
    "tests/plugins/cuda/test_device.py": "what carries arrays to a device, without one",
    "tests/plugins/cuda/test_mutations.py": "faults put into the sources",
    "tests/plugins/cuda/test_sanitizers.py": "another build of the emulated kernels",
    "tests/plugins/cuda/test_schedules.py": "the emulated kernels under other schedules",
}


def suite(implementation: str, *paths: str | Path) -> list[str]:
    """The command that runs the tests of an implementation.

    Args:
        implementation: its name, or the first word of several names: ``"cpu"`` for the CPU library at every level.
        paths: files and directories of tests.
    """
    plugin = ["-p", "no:cacheprovider", "-p", "tests.kernels.selection", OPTION, implementation]
    return [sys.executable, "-m", "pytest", *plugin, *map(str, paths)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that names the implementation."""
    parser.addoption(OPTION, required=True, help="run the tests of this implementation of the kernels alone")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Deselect the tests of other implementations, after every other selection."""
    collected = {_relative(item.path) for item in items}
    yield
    implementation = config.getoption(OPTION)
    kept = [item for item in items if _is_of(item, implementation)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept
    if missing := without_tests(collected, [_relative(item.path) for item in kept]):
        raise pytest.UsageError(
            f"no test of {implementation!r} was collected from {', '.join(missing)}: parametrise its tests by one of "
            f"the fixtures {', '.join(FIXTURES)}, or name the file in ELSEWHERE of tests/kernels/selection.py"
        )


def without_tests(collected: set[str], kept: Sequence[str]) -> list[str]:
    """The files that contribute no test although they should.

    Args:
        collected: files in which any test was found.
        kept: the file of every test that will run.
    """
    return sorted(name for name in collected - set(kept) - set(ELSEWHERE) if not name.endswith(ORACLE))


def _is_of(item: pytest.Item, implementation: str) -> bool:
    parameters = getattr(item, "callspec", None)
    names = [parameters.params.get(fixture) for fixture in FIXTURES] if parameters else []
    return any(isinstance(name, str) and f"{name} ".startswith(f"{implementation} ") for name in names)


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
