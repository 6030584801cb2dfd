"""The sampling defaults of a checkpoint, checked for what they are; what they mean is decided when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cpspec_trt.checkpoint.reader import Checkpoint
from cpspec_trt.checkpoint.section import read_section

FILE_NAME = "generation_config.json"
# A field belongs to the first of these endings: ``subtalker_top_k`` is a whole number.
_KINDS: Mapping[str, type[Any]] = MappingProxyType(
    {
        "do_sample": bool,
        "dosample": bool,
        "top_k": int,
        "max_new_tokens": int,
        "temperature": float,
        "top_p": float,
        "repetition_penalty": float,
    }
)


def check_generation_config(checkpoint: Checkpoint) -> None:
    """Read ``generation_config.json`` if there is one.

    Raises:
        CheckpointError: it is no JSON object, or a sampling value has the wrong type.
    """
    path = checkpoint.directory / FILE_NAME
    if not path.exists():
        return
    section = read_section(path, "generation config")
    for name in section.value:
        kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), None)
        if kind is not None:
            section.checked(name, kind)
