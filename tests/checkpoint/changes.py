"""Variants of a configuration for tests of what is read from it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

FieldPath = tuple[str, ...]
Json = dict[str, Any]

PRETRAINED = Path(__file__).parent / "data" / "omni_pretrained"  # made by scripts/make_omni_pretrained.py
OMNI: Json = json.loads((PRETRAINED / "config.json").read_text(encoding="utf-8"))


def changed(base: Json, path: FieldPath, value: Any = None, remove: bool = False) -> Json:
    """A copy of ``base`` with one field, given by its path, set or removed."""
    result = copy.deepcopy(base)
    *parents, last = path
    inner = result
    for name in parents:
        inner = inner[name]
    if remove:
        del inner[last]
    else:
        inner[last] = value
    return result


def legacy(config: Json) -> Json:
    """A configuration as transformers 5 saves it, in the words of the checkpoints published before."""
    result = copy.deepcopy(config)
    _to_legacy(result)
    return result


def _to_legacy(section: Json) -> None:
    for inner in section.values():
        if isinstance(inner, dict):
            _to_legacy(inner)
    rope = section.pop("rope_parameters", None)
    if rope is not None:
        section["rope_theta"] = int(rope.pop("rope_theta"))
        kind = rope.pop("rope_type")
        section["rope_scaling"] = {**rope, "rope_type": kind, "type": kind} if rope else None
    if "num_local_experts" in section:
        section["num_experts"] = section.pop("num_local_experts")
