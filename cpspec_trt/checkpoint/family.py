"""Which family of models a checkpoint belongs to."""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.checkpoint.section import read_section
from cpspec_trt.errors import UnsupportedError

QWEN3_TTS = "qwen3_tts"
QWEN3_OMNI = "qwen3_omni_moe"
FAMILIES = (QWEN3_TTS, QWEN3_OMNI)


def read_family(config_path: Path) -> str:
    """``QWEN3_TTS`` or ``QWEN3_OMNI``, by the field ``model_type`` of a checkpoint's ``config.json``.

    Raises:
        CheckpointError: the file is damaged or the field is missing.
        UnsupportedError: the checkpoint is of another family.
    """
    root = read_section(config_path, "model configuration")
    family = root.text("model_type")
    if family not in FAMILIES:
        known = " and ".join(FAMILIES)
        raise UnsupportedError(f"{config_path}: model_type {family!r} is not supported; this release reads {known}")
    return family
