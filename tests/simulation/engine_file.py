"""The engine of the simulation: a header like that of a real one, and the ONNX graph that ONNX Runtime runs."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

_HEADER = struct.Struct("<4sIQQ3B")  # magic, zero, 2, size of the whole, version: as real engines begin
_MARK = b"simulation of TensorRT\0"
_LENGTH = struct.Struct("<Q")
_ABOUT = ("module", "version", "profiles", "version_compatible")

Shape = tuple[int, ...]
Ranges = dict[str, tuple[Shape, Shape, Shape]]


@dataclass(frozen=True, slots=True)
class EngineContent:
    """What such an engine holds.

    Attributes:
        module: name of the TensorRT module that built it.
        version: of that module.
        profiles: per profile, input name -> min, opt, max.
        model: the ONNX graph, weights included.
        version_compatible: whether it carries code that opens it under other versions.
    """

    module: str
    version: str
    profiles: tuple[Ranges, ...]
    model: bytes
    version_compatible: bool = False


def packed(content: EngineContent) -> bytes:
    """The file."""
    about = json.dumps({name: getattr(content, name) for name in _ABOUT}).encode()
    body = _MARK + _LENGTH.pack(len(about)) + about + content.model
    major, minor, patch = (int(part) for part in content.version.split(".")[:3])
    return _HEADER.pack(b"vtrt", 0, 2, _HEADER.size + len(body), major, minor, patch) + body


def unpacked(file: bytes) -> EngineContent | str:
    """The content, or why there is none."""
    if len(file) < _HEADER.size or file[:4] != b"vtrt":
        return "the magic tag does not match: this is no engine"
    size = _HEADER.unpack_from(file)[3]
    if size != len(file):
        return f"the engine should have {size} bytes and has {len(file)}"
    body = file[_HEADER.size :]
    if not body.startswith(_MARK):
        return "this is an engine of real TensorRT, which a simulation cannot run"
    (length,) = _LENGTH.unpack_from(body, len(_MARK))
    begin = len(_MARK) + _LENGTH.size
    about = json.loads(body[begin : begin + length])
    profiles = tuple(
        {name: (tuple(low), tuple(usual), tuple(high)) for name, (low, usual, high) in profile.items()}
        for profile in about["profiles"]
    )
    return EngineContent(**{**about, "profiles": profiles}, model=body[begin + length :])
