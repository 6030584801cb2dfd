"""``engine_manifest.json``: what an engine file is, written at build time and checked before it is loaded.

An engine cannot be inspected on every machine (TensorRT needs a driver to open one), so everything
a runtime must know before loading stands here: backend and version, inputs and outputs, and for each
of the two optimization profiles the smallest, usual and largest shape of every input.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from cpspec_trt.errors import EngineError
from cpspec_trt.files.engine_config import take
from cpspec_trt.files.json_io import read_json, write_json_atomic
from cpspec_trt.files.rebuild import FULL, RTX, rebuild_command

FORMAT_VERSION = 2
MANIFEST_NAME = "engine_manifest.json"
PORTABLE = "portable"
SEAL = "manifest_sha256"
ProfileName = Literal["context", "generation"]
Shape = tuple[int, ...]
_HEADER_BYTES = 1 << 20
_REBUILD = "rebuild the engine with cpspec-build"


@dataclass(frozen=True, slots=True)
class ShapeRange:
    """Smallest, usual and largest shape of one input under one profile (min <= opt <= max, per dimension)."""

    min: Shape
    opt: Shape
    max: Shape

    def fault(self) -> str | None:
        """Why this is not a range (ranks differ, a size below 1, or not min <= opt <= max), or None."""
        if not len(self.min) == len(self.opt) == len(self.max):
            return f"min {list(self.min)}, opt {list(self.opt)} and max {list(self.max)} differ in rank"
        for axis, (low, usual, high) in enumerate(zip(self.min, self.opt, self.max, strict=True)):
            if not 1 <= low <= usual <= high:
                return f"dimension {axis} must have 1 <= min <= opt <= max, found {low}, {usual}, {high}"
        return None

    def violation(self, shape: Shape) -> str | None:
        """Why ``shape`` lies outside this range, or None."""
        if len(shape) != len(self.min):
            return f"has {len(shape)} dimensions, expected {len(self.min)}"
        for axis, (low, size, high) in enumerate(zip(self.min, shape, self.max, strict=True)):
            if not low <= size <= high:
                return f"is {list(shape)}; dimension {axis} must lie in {low} … {high}"
        return None


@dataclass(frozen=True, slots=True)
class Profile:
    """One optimization profile: a shape range for every input of the engine."""

    name: ProfileName
    inputs: Mapping[str, ShapeRange]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Name, dtype (numpy's name) and shape of an input or output; -1 marks a dynamic dimension."""

    name: str
    dtype: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class EngineFile:
    """One file of an engine: its name inside the directory, size, hash of everything and of the first MiB."""

    name: str
    bytes: int
    sha256: str
    header_sha256: str


@dataclass(frozen=True, slots=True)
class BuildFacts:
    """What a TensorRT engine was built with and for; it runs nowhere else.

    Attributes:
        tensorrt_version: of the library that built it.
        os: operating system, as ``platform.system()`` names it ("Linux").
        machine: instruction set, as ``platform.machine()`` names it ("x86_64").
        compute_capabilities: of the GPUs it is for ("8.9"), or the single word ``PORTABLE``: every GPU that the
            flavour supports.
        optimization_level: 0 … 5.
        workspace_bytes: most scratch memory a layer may take; None: no limit was set.
        version_compatible: whether later TensorRT versions of the same major release may load it.
        hardware_compatible: whether later GPU generations may run it.
    """

    tensorrt_version: str
    os: str
    machine: str
    compute_capabilities: tuple[str, ...]
    optimization_level: int
    workspace_bytes: int | None
    version_compatible: bool
    hardware_compatible: bool

    @property
    def named_capabilities(self) -> tuple[str, ...]:
        """The GPUs it is for, where they were named; empty for a portable engine."""
        return () if self.compute_capabilities == (PORTABLE,) else self.compute_capabilities


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole manifest.

    ``limits`` repeats the builder's sizes (max_batch_size, max_input_len, …); ``files`` are those the
    backend opens; ``sidecars`` is everything else the build put beside them: ``config.json`` and the
    tables, tokenizer and sampling files. ``build`` is None for ONNX Runtime, whose engines run anywhere.
    """

    backend: str
    backend_version: str
    component: str
    model: str
    checkpoint_fingerprint: str
    precision: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    profiles: tuple[Profile, ...]
    limits: Mapping[str, int]
    files: tuple[EngineFile, ...]
    sidecars: tuple[EngineFile, ...]
    build: BuildFacts | None = None

    def profile(self, name: ProfileName) -> Profile:
        """The profile of that name; every engine has both."""
        return next(p for p in self.profiles if p.name == name)

    def max_new_positions(self, name: ProfileName) -> int:
        """Largest number of new positions per sequence a decoder accepts under a profile."""
        return self.profile(name).inputs["inputs_embeds"].max[1]

    @property
    def max_kv_capacity(self) -> int:
        """Largest number of KV slots per sequence a decoder accepts."""
        return self.profile("generation").inputs["past_key_0"].max[2]


def describe_file(path: Path) -> EngineFile:
    """Size and hashes of a finished engine file."""
    whole, header = hashlib.sha256(), hashlib.sha256()
    with path.open("rb") as stream:
        first = stream.read(_HEADER_BYTES)
        header.update(first)
        whole.update(first)
        while block := stream.read(_HEADER_BYTES):
            whole.update(block)
    return EngineFile(path.name, path.stat().st_size, whole.hexdigest(), header.hexdigest())


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest into an engine directory (atomically), sealed."""
    content = {"format_version": FORMAT_VERSION, **_to_json(manifest)}
    write_json_atomic(directory / MANIFEST_NAME, {**content, SEAL: seal(content)})


def seal(content: Mapping[str, Any]) -> str:
    """SHA-256 over everything in a manifest but its seal, whatever the order and layout of the JSON."""
    bare = {name: value for name, value in content.items() if name != SEAL}
    return hashlib.sha256(json.dumps(bare, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_manifest(directory: Path) -> Manifest:
    """Read and check a manifest.

    Raises:
        EngineError: no manifest, another format version, a field missing or of the wrong kind, or a value that was
            changed after the build.
    """
    path = directory / MANIFEST_NAME
    value = read_json(path, EngineError, "engine manifest (build the engine with cpspec-build)")
    version = take(value, "format_version", int, path, EngineError)
    if version != FORMAT_VERSION:
        raise EngineError(f"{path}: format_version is {version}, this release reads {FORMAT_VERSION}; {_REBUILD}")
    try:
        manifest = _from_json(value, path)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise EngineError(f"{path}: the manifest is damaged ({fault}); {_REBUILD}") from None
    if value.get(SEAL) != seal(value):
        raise EngineError(f"{path}: was changed after the build ({SEAL} differs); restore it, or {_REBUILD}")
    return manifest


def check_files(directory: Path, manifest: Manifest, full: bool = False) -> None:
    """Compare every file of the build with the manifest: sizes and the first MiB, or with ``full`` all bytes.

    Raises:
        EngineError: a file is missing, cannot be read, or was truncated or changed since the build.
    """
    rebuild = f"rebuild it with {rebuild_command(directory, manifest)}"
    for expected in (*manifest.files, *manifest.sidecars):
        path = directory / expected.name
        if not path.is_file():
            raise EngineError(f"{path}: the engine file is missing; {rebuild}")
        size = path.stat().st_size
        if size != expected.bytes:
            raise EngineError(f"{path}: has {size} bytes, the manifest says {expected.bytes}; {rebuild}")
        try:
            digest, wanted = _digest(path, full), expected.sha256 if full else expected.header_sha256
        except OSError as fault:
            raise EngineError(f"{path}: cannot be read: {fault.strerror}; make it readable") from None
        if digest != wanted:
            raise EngineError(f"{path}: its content is not what was built (sha256 differs); {rebuild}")


def _digest(path: Path, full: bool) -> str:
    if full:
        return describe_file(path).sha256
    with path.open("rb") as stream:
        return hashlib.sha256(stream.read(_HEADER_BYTES)).hexdigest()


def _to_json(manifest: Manifest) -> dict[str, Any]:
    def tensor(info: TensorInfo) -> dict[str, Any]:
        return {"name": info.name, "dtype": info.dtype, "shape": list(info.shape)}

    def shapes(found: ShapeRange) -> dict[str, list[int]]:
        return {"min": list(found.min), "opt": list(found.opt), "max": list(found.max)}

    return {
        "backend": manifest.backend,
        "backend_version": manifest.backend_version,
        "component": manifest.component,
        "model": manifest.model,
        "checkpoint_fingerprint": manifest.checkpoint_fingerprint,
        "precision": manifest.precision,
        "inputs": [tensor(info) for info in manifest.inputs],
        "outputs": [tensor(info) for info in manifest.outputs],
        "profiles": {p.name: {name: shapes(found) for name, found in p.inputs.items()} for p in manifest.profiles},
        "limits": dict(manifest.limits),
        "files": [asdict(file) for file in manifest.files],
        "sidecars": [asdict(file) for file in manifest.sidecars],
        "build": None if manifest.build is None else asdict(manifest.build),
    }


def _from_json(value: dict[str, Any], path: Path) -> Manifest:
    def text(field: str) -> str:
        found = take(value, field, str, path, EngineError)
        return str(found)

    def tensors(field: str) -> tuple[TensorInfo, ...]:
        return tuple(TensorInfo(str(t["name"]), str(t["dtype"]), _shape(t["shape"])) for t in value[field])

    inputs = tensors("inputs")
    profiles = tuple(_profile(name, value["profiles"][name], inputs) for name in ("context", "generation"))
    files = tuple(_engine_file(item) for item in value["files"])
    sidecars = tuple(_engine_file(item) for item in value["sidecars"])
    if "config.json" not in {file.name for file in sidecars}:
        raise ValueError("it does not list config.json")
    limits = MappingProxyType({str(key): int(number) for key, number in value["limits"].items()})
    return Manifest(
        text("backend"), text("backend_version"), text("component"), text("model"), text("checkpoint_fingerprint"),
        text("precision"), inputs, tensors("outputs"), profiles, limits, files, sidecars, _build_facts(value, path),
    )  # fmt: skip


def _build_facts(manifest: Mapping[str, Any], path: Path) -> BuildFacts | None:
    value = manifest["build"]
    if (value is None) == (manifest["backend"] in (FULL, RTX)):
        raise ValueError(f"build is {value!r:.60}, the backend is {manifest['backend']}")
    if value is None:
        return None

    def field(name: str, kind: type[Any]) -> Any:
        return take(value, name, kind, path, EngineError)

    capabilities = tuple(str(item) for item in field("compute_capabilities", list))
    if not capabilities:
        raise ValueError("build.compute_capabilities is empty")
    return BuildFacts(
        field("tensorrt_version", str), field("os", str), field("machine", str), capabilities,
        field("optimization_level", int), None if value["workspace_bytes"] is None else field("workspace_bytes", int),
        field("version_compatible", bool), field("hardware_compatible", bool),
    )  # fmt: skip


def _profile(name: ProfileName, value: Mapping[str, Any], inputs: tuple[TensorInfo, ...]) -> Profile:
    ranges = {str(key): ShapeRange(_shape(r["min"]), _shape(r["opt"]), _shape(r["max"])) for key, r in value.items()}
    missing = [info.name for info in inputs if info.name not in ranges]
    if missing:
        raise ValueError(f"profile {name} has no range for input {missing[0]}")
    shapes = {info.name: info.shape for info in inputs}
    for key, found in ranges.items():
        if fault := found.fault() or _misfit(found, shapes.get(key)):
            raise ValueError(f"profile {name}, input {key}: {fault}")
    return Profile(name, MappingProxyType(ranges))


def _misfit(found: ShapeRange, shape: Shape | None) -> str | None:
    """Why a range is none of the input of that shape, or None."""
    if shape is None:
        return "the engine has no such input"
    agree = len(shape) == len(found.min) and all(
        size in (-1, low) and size in (-1, high) for size, low, high in zip(shape, found.min, found.max, strict=True)
    )
    return None if agree else f"{list(found.min)} … {list(found.max)} is no range of the shape {list(shape)}"


def _engine_file(value: Mapping[str, Any]) -> EngineFile:
    name = _plain_name(value["name"])
    return EngineFile(name, int(value["bytes"]), str(value["sha256"]), str(value["header_sha256"]))


def _shape(value: Any) -> Shape:
    if not isinstance(value, list) or not all(isinstance(size, int) and not isinstance(size, bool) for size in value):
        raise ValueError(f"{value!r:.60} is not a shape")
    return tuple(value)


def _plain_name(value: Any) -> str:
    if not isinstance(value, str) or not value or Path(value).name != value:
        raise ValueError(f"{value!r:.60} is not a plain file name")
    return value
