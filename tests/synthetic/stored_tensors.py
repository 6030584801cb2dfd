"""Reads stored tensors without this package: headers by hand, values through the safetensors library."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open


def read_header(path: Path) -> dict[str, Any]:
    """The JSON header of a safetensors file, read by hand, without its metadata."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header: dict[str, Any] = json.loads(file.read(length))
    assert header.pop("__metadata__") == {"format": "pt"}
    return header


def read_model(root: Path) -> dict[str, NDArray[np.float32]]:
    """The tensors of the language model, all shards together."""
    files = [read_file(path) for path in sorted(root.glob("model*.safetensors"))]
    return {name: values for tensors in files for name, values in tensors.items()}


def read_file(path: Path) -> dict[str, NDArray[np.float32]]:
    """Through the safetensors library; bfloat16 is widened by hand, as numpy has no such type."""
    header = read_header(path)
    if any(entry["dtype"] == "BF16" for entry in header.values()):
        return _read_bfloat16(path, header)
    with safe_open(path, "np") as file:
        return {name: file.get_tensor(name).astype(np.float32) for name in file.keys()}  # noqa: SIM118


def _read_bfloat16(path: Path, header: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    raw = path.read_bytes()
    data = raw[8 + struct.unpack("<Q", raw[:8])[0] :]
    return {
        name: (np.frombuffer(data[slice(*entry["data_offsets"])], "<u2").astype(np.uint32) << 16)
        .view(np.float32)
        .reshape(entry["shape"])
        for name, entry in header.items()
    }
