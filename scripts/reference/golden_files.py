"""What the scripts that write tests/goldens share: the files' form, and what tells checkpoints apart."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "goldens"
# A choice nearer than this to a tie tells nothing about an implementation whose float32 sums run in
# another order (they differ by some 2e-6); choose another seed instead.
LEAST_MARGIN = 4e-4

Arrays = dict[str, NDArray[Any]]


def file_hashes(checkpoint: Path) -> dict[str, str]:
    """Relative name -> SHA-256 (hex) of every file of a checkpoint."""
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file())
    return {path.relative_to(checkpoint).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refuse_equal_answers(arrays: Arrays) -> None:
    """Cases that differ in one field must differ in their codes, or the field is not tested."""
    seen: dict[bytes, str] = {}
    for name, codes in arrays.items():
        if name.endswith(".codes") and (other := seen.setdefault(codes.tobytes(), name)) != name:
            raise SystemExit(f"{name} equals {other}; change the text or the seed")


def write_arrays(name: str, arrays: Arrays) -> None:
    """Write ``tests/goldens/<name>``, a compressed npz."""
    GOLDENS.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(GOLDENS / name, **arrays)


def write_json(name: str, value: Mapping[str, Any]) -> None:
    """Write ``tests/goldens/<name>``, one line for each list of numbers, so that a change reads well in a diff."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    GOLDENS.mkdir(parents=True, exist_ok=True)
    (GOLDENS / name).write_text(_join_number_lists(text) + "\n", encoding="utf-8")


def _join_number_lists(text: str) -> str:
    return re.sub(r"\[\s*([-0-9,\s]*?)\s*\]", lambda found: "[" + " ".join(found[1].split()) + "]", text)
