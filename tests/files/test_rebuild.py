"""The command that builds an engine again can be pasted, and asks for what was built."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.builder.build import build_engine
from cpspec_trt.builder.profiles import BuildLimits
from cpspec_trt.cli.build import main
from cpspec_trt.files.manifest import PORTABLE, BuildFacts, Manifest, read_manifest
from cpspec_trt.files.rebuild import flag_of, rebuild_command
from tests.builder import tiny_exports

FACTS = BuildFacts("1.7.1.116", "Linux", "x86_64", (PORTABLE,), 3, None, False, False)


@pytest.fixture
def talker(tmp_path: Path) -> tuple[Path, Manifest]:
    directory = tmp_path / "engines of mine" / "talker"
    limits = BuildLimits(max_input_len=77, opt_input_len=5, max_batch_size=2, max_kv_cache_capacity=99)
    build_engine(tiny_exports.write_talker(tmp_path / "onnx"), directory, limits, "onnxruntime")
    return directory, read_manifest(directory)


def parsed(command: str) -> dict[str, Any]:
    """What the command line makes of the flags, where they differ from none at all."""
    program, *words = shlex.split(command)
    assert program == "cpspec-build"
    with main.make_context(program, words) as context:
        return {name: value for name, value in context.params.items() if value not in (None, False, ())}


def test_the_command_repeats_every_limit_and_can_be_pasted(talker: tuple[Path, Manifest]) -> None:
    directory, manifest = talker
    assert parsed(rebuild_command(directory, manifest)) == {
        "onnx_dir": Path("ONNX_DIR"),
        "engine_dir": directory,
        "backend": "onnxruntime",
        "max_input_len": 77,
        "opt_input_len": 5,
        "max_batch_size": 2,
        "max_kv_cache_capacity": 99,
    }


def test_the_command_builds_the_same_profiles_again(talker: tuple[Path, Manifest], tmp_path: Path) -> None:
    directory, manifest = talker
    given = parsed(rebuild_command(directory, manifest))
    limits = {name: value for name, value in given.items() if name in manifest.limits}
    again = build_engine(tmp_path / "onnx", tmp_path / "again", BuildLimits(**limits), given["backend"]).manifest
    assert (again.profiles, again.limits) == (manifest.profiles, manifest.limits)


def test_a_tensorrt_engine_is_built_again_with_its_options(talker: tuple[Path, Manifest]) -> None:
    directory, manifest = talker
    facts = replace(FACTS, optimization_level=5, workspace_bytes=64 << 20, version_compatible=True)
    built = replace(manifest, backend="tensorrt", precision="bf16", build=replace(facts, hardware_compatible=True))
    given = parsed(rebuild_command(directory, built))
    assert {name: given[name] for name in ("backend", "precision", "optimization_level", "workspace_mib")} == {
        "backend": "tensorrt",
        "precision": "bf16",
        "optimization_level": 5,
        "workspace_mib": 64,
    }
    assert given["version_compatible"] is given["hardware_compatible"] is True


@pytest.mark.parametrize(
    ("built_for", "wanted", "expected"),
    [
        ((PORTABLE,), None, None),
        (("8.0", "8.9"), None, "8.0,8.9"),
        (("8.0", "8.9"), "12.0", "8.0,8.9,12.0"),
        ((PORTABLE,), "8.6", "8.6"),
    ],
)
def test_an_rtx_engine_keeps_its_gpus_and_gains_the_one_that_is_here(
    talker: tuple[Path, Manifest], built_for: tuple[str, ...], wanted: str | None, expected: str | None
) -> None:
    directory, manifest = talker
    facts = replace(FACTS, compute_capabilities=built_for)
    built = replace(manifest, backend="tensorrt-rtx", precision="fp16", build=facts)
    command = rebuild_command(directory, built, compute_capability=wanted)
    words = shlex.split(command)
    found = words[words.index("--computeCapabilities") + 1] if "--computeCapabilities" in words else None
    assert found == expected
    assert ("compute_capabilities" in parsed(command)) == (expected is not None)


def test_sizes_that_must_be_others_win(talker: tuple[Path, Manifest]) -> None:
    given = parsed(rebuild_command(*talker, limits={"max_input_len": 88}))
    assert given == parsed(rebuild_command(*talker)) | {"max_input_len": 88}


def test_another_backend_gets_no_option_of_the_old_one(talker: tuple[Path, Manifest]) -> None:
    directory, manifest = talker
    facts = replace(FACTS, compute_capabilities=("8.9",))
    built = replace(manifest, backend="tensorrt-rtx", precision="fp16", build=facts)
    embedded = parsed(rebuild_command(directory, built, "onnxruntime"))
    assert embedded == parsed(rebuild_command(directory, manifest))
    full = parsed(rebuild_command(directory, built, "tensorrt"))
    assert full["backend"] == "tensorrt"
    assert "precision" not in full
    assert "compute_capabilities" not in full


def test_flags_are_spelled_as_the_command_line_spells_them() -> None:
    assert flag_of("max_kv_cache_capacity") == "--maxKVCacheCapacity"
    assert flag_of("opt_input_len") == "--optInputLen"
