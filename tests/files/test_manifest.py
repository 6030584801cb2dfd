"""The engine manifest: written once, checked before every load."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from cpspec_trt.errors import EngineError
from cpspec_trt.files.manifest import (
    PORTABLE,
    BuildFacts,
    EngineFile,
    Manifest,
    Profile,
    ShapeRange,
    TensorInfo,
    check_files,
    describe_file,
    read_manifest,
    write_manifest,
)
from tests.engine_edits import edit_manifest

FACTS = BuildFacts("1.7.1.116", "Linux", "x86_64", ("8.9", "12.0"), 3, 1 << 30, False, True)
TENSORRT_BUILD: dict[str, Any] = asdict(FACTS)
RANGE = ShapeRange((1, 1, 8), (4, 1, 8), (4, 8, 8))
MANIFEST = Manifest(
    backend="onnxruntime",
    backend_version="1.0",
    component="code_predictor",
    model="qwen3_tts_code_predictor",
    checkpoint_fingerprint="abc",
    precision="fp32",
    inputs=(TensorInfo("inputs_embeds", "float32", (-1, -1, 8)),),
    outputs=(TensorInfo("hidden_states", "float32", (-1, -1, 6)),),
    profiles=(
        Profile("context", {"inputs_embeds": ShapeRange((1, 1, 8), (4, 8, 8), (4, 16, 8))}),
        Profile("generation", {"inputs_embeds": RANGE}),
    ),
    limits={"max_batch_size": 4},
    files=(EngineFile("llm.onnx", 3, "00", "00"),),
    sidecars=(EngineFile("config.json", 2, "22", "22"), EngineFile("lm_heads.safetensors", 5, "11", "11")),
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST


def test_what_a_tensorrt_engine_was_built_for_is_read_back(tmp_path: Path) -> None:
    for facts in (FACTS, replace(FACTS, compute_capabilities=(PORTABLE,), workspace_bytes=None)):
        manifest = replace(MANIFEST, backend="tensorrt-rtx", precision="bf16", build=facts)
        write_manifest(tmp_path, manifest)
        assert read_manifest(tmp_path) == manifest


def test_the_file_says_everything_in_plain_json(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    value = json.loads((tmp_path / "engine_manifest.json").read_text())
    assert value["format_version"] == 2
    assert value["profiles"]["generation"]["inputs_embeds"] == {"min": [1, 1, 8], "opt": [4, 1, 8], "max": [4, 8, 8]}
    assert value["inputs"] == [{"name": "inputs_embeds", "dtype": "float32", "shape": [-1, -1, 8]}]
    assert value["files"] == [{"name": "llm.onnx", "bytes": 3, "sha256": "00", "header_sha256": "00"}]


def test_profiles_are_found_by_name() -> None:
    assert MANIFEST.profile("generation").inputs["inputs_embeds"] is RANGE
    assert MANIFEST.max_new_positions("generation") == 8
    assert MANIFEST.max_new_positions("context") == 16


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((1, 1, 8), None),
        ((4, 8, 8), None),
        ((4, 9, 8), "is [4, 9, 8]; dimension 1 must lie in 1 … 8"),
        ((0, 1, 8), "is [0, 1, 8]; dimension 0 must lie in 1 … 4"),
        ((1, 1, 7), "is [1, 1, 7]; dimension 2 must lie in 8 … 8"),
        ((1, 8), "has 2 dimensions, expected 3"),
    ],
)
def test_a_shape_outside_the_range_is_explained(shape: tuple[int, ...], reason: str | None) -> None:
    assert RANGE.violation(shape) == reason


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (RANGE, None),
        (ShapeRange((2,), (1,), (3,)), "dimension 0 must have 1 <= min <= opt <= max, found 2, 1, 3"),
        (ShapeRange((1, 1), (1, 4), (1, 3)), "dimension 1 must have 1 <= min <= opt <= max, found 1, 4, 3"),
        (ShapeRange((0,), (1,), (1,)), "dimension 0 must have 1 <= min <= opt <= max, found 0, 1, 1"),
        (ShapeRange((1,), (1, 1), (1,)), "min [1], opt [1, 1] and max [1] differ in rank"),
    ],
)
def test_a_range_that_is_none_is_explained(found: ShapeRange, fault: str | None) -> None:
    assert found.fault() == fault


def test_a_missing_manifest_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(
        EngineError, match=r"engine_manifest.json: the engine manifest \(build the engine with cpspec-b"
    ):
        read_manifest(tmp_path)


def test_a_manifest_of_another_format_is_refused(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    edit_manifest(tmp_path, lambda value: value.update(format_version=3))
    with pytest.raises(EngineError, match="format_version is 3, this release reads 2; rebuild the engine with cpspec"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop("backend"), "required field 'backend' is missing"),
        (lambda v: v.update(model=3), "field 'model' must be a text, found 3"),
        (lambda v: v.pop("profiles"), "the manifest is damaged"),
        (lambda v: v["profiles"].pop("generation"), "the manifest is damaged"),
        (lambda v: v["profiles"]["context"].clear(), "profile context has no range for input inputs_embeds"),
        (lambda v: v["profiles"]["context"]["inputs_embeds"].pop("opt"), "the manifest is damaged"),
        (lambda v: v["profiles"]["context"]["inputs_embeds"].update(max=[4, 2, 8]), "input inputs_embeds: dimension 1"),
        (lambda v: v["inputs"][0].update(shape="big"), "'big' is not a shape"),
        (lambda v: v["inputs"][0].update(shape=[True]), "is not a shape"),
        (lambda v: v["files"][0].update(name="../../etc/passwd"), "'../../etc/passwd' is not a plain file name"),
        (lambda v: v["files"][0].update(name=""), "'' is not a plain file name"),
        (lambda v: v["sidecars"][0].update(bytes="many"), "the manifest is damaged"),
        (lambda v: v["sidecars"].pop(0), "it does not list config.json"),
        (lambda v: v.update(limits=[1]), "the manifest is damaged"),
        (lambda v: v.update(files=7), "the manifest is damaged"),
        (lambda v: v["inputs"][0].update(shape=[-1, -1, 9]), "input inputs_embeds: [1, 1, 8] … [4, 16, 8] is no range"),
        (lambda v: v["inputs"][0].update(shape=[-1, 8]), "is no range of the shape [-1, 8]"),
        (lambda v: v["profiles"]["context"].update(x=v["profiles"]["context"]["inputs_embeds"]), "no such input"),
        (lambda v: v.update(backend="tensorrt"), "build is None, the backend is tensorrt"),
        (lambda v: v.update(build=TENSORRT_BUILD), "the backend is onnxruntime"),
        (lambda v: v.update(backend="tensorrt", build=TENSORRT_BUILD | {"os": 1}), "field 'os' must be a text"),
        (
            lambda v: v.update(backend="tensorrt", build=TENSORRT_BUILD | {"compute_capabilities": []}),
            "build.compute_capabilities is empty",
        ),
    ],
)
def test_an_edited_manifest_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    write_manifest(tmp_path, MANIFEST)
    edit_manifest(tmp_path, change)
    with pytest.raises(EngineError) as caught:
        read_manifest(tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path / "engine_manifest.json") in str(caught.value)


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path
    else:
        for key, inner in items:
            yield from leaves(inner, (*path, key))


def test_every_single_value_is_sealed(tmp_path: Path) -> None:
    write_manifest(tmp_path, replace(MANIFEST, backend="tensorrt-rtx", build=FACTS))
    path = tmp_path / "engine_manifest.json"
    written = path.read_text()
    found = list(leaves(json.loads(written)))
    assert len(found) > 40
    for place in found:
        value = json.loads(written)
        *outer, last = place
        holder: Any = value
        for key in outer:
            holder = holder[key]
        old = holder[last]
        holder[last] = not old if isinstance(old, bool) else old + 1 if isinstance(old, int) else old + "x"
        path.write_text(json.dumps(value))
        with pytest.raises(EngineError):
            read_manifest(tmp_path)


def test_an_honest_edit_of_a_manifest_is_refused_with_the_way_out(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    path = tmp_path / "engine_manifest.json"
    path.write_text(path.read_text().replace('"max_batch_size": 4', '"max_batch_size": 8'))
    with pytest.raises(
        EngineError, match=r"was changed after the build \(manifest_sha256 differs\); restore it, or reb"
    ):
        read_manifest(tmp_path)


def test_order_and_layout_of_the_json_mean_nothing(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    path = tmp_path / "engine_manifest.json"
    path.write_text(json.dumps(dict(reversed(json.loads(path.read_text()).items()))))
    assert read_manifest(tmp_path) == MANIFEST


def test_size_and_hashes_are_those_of_the_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096 * 3  # three MiB, of which the first is the header
    (tmp_path / "llm.onnx.data").write_bytes(content)
    assert describe_file(tmp_path / "llm.onnx.data") == EngineFile(
        "llm.onnx.data",
        3 << 20,
        hashlib.sha256(content).hexdigest(),
        hashlib.sha256(content[: 1 << 20]).hexdigest(),
    )


FILES = ("llm.onnx.data", "config.json", "lm_heads.safetensors")
LARGE = ("llm.onnx.data", "lm_heads.safetensors")


@pytest.fixture
def engine(tmp_path: Path) -> tuple[Path, Manifest]:
    (tmp_path / "llm.onnx.data").write_bytes(b"w" * ((1 << 20) + 10))
    (tmp_path / "lm_heads.safetensors").write_bytes(b"h" * ((1 << 20) + 10))
    (tmp_path / "config.json").write_bytes(b"{}")
    engine, *sidecars = (describe_file(tmp_path / name) for name in FILES)
    return tmp_path, replace(MANIFEST, files=(engine,), sidecars=tuple(sidecars))


def overwrite(path: Path, position: int) -> None:
    with path.open("r+b") as stream:
        stream.seek(position)
        stream.write(b"X")


def test_untouched_files_pass_both_checks(engine: tuple[Path, Manifest]) -> None:
    check_files(*engine)
    check_files(*engine, full=True)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_truncated_file_is_named(engine: tuple[Path, Manifest], name: str) -> None:
    directory, manifest = engine
    with (directory / name).open("r+b") as stream:
        stream.truncate(1)
    with pytest.raises(EngineError, match=rf"{name}: has 1 bytes, the manifest says \d+; rebuild it with"):
        check_files(directory, manifest)
    (directory / name).unlink()
    with pytest.raises(EngineError, match=f"{name}: the engine file is missing"):
        check_files(directory, manifest)


@pytest.mark.parametrize("name", FILES)
def test_a_change_in_the_first_mebibyte_is_seen_at_load(engine: tuple[Path, Manifest], name: str) -> None:
    directory, manifest = engine
    overwrite(directory / name, 0)
    with pytest.raises(EngineError, match=f"{name}: its content is not what was built"):
        check_files(directory, manifest)


@pytest.mark.parametrize("name", LARGE)
def test_a_later_change_is_seen_by_the_full_check(engine: tuple[Path, Manifest], name: str) -> None:
    directory, manifest = engine
    overwrite(directory / name, (1 << 20) + 5)
    check_files(directory, manifest)
    with pytest.raises(EngineError, match=f"{name}: its content is not what was built"):
        check_files(directory, manifest, full=True)
