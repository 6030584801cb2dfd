"""The build plans of a checkpoint, without exporting it: its graphs are authored, but no weight is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cpspec_trt.builder.exported import tensors_of
from cpspec_trt.builder.profiles import BuildLimits, BuildPlan, plan
from cpspec_trt.checkpoint.reader import open_checkpoint
from cpspec_trt.graphs.export import read_components

_NO_FINGERPRINT = ""  # would cost a pass over all weights, and no plan depends on it


def plan_checkpoint(
    checkpoint: Path, limits: Mapping[str, BuildLimits], static_capacity: bool = False
) -> list[BuildPlan]:
    """Plan every component; see ``profiles.plan``. Writes nothing.

    Raises:
        CheckpointError: the checkpoint is incomplete, or a tensor does not fit its config.
        UsageError: limits that fit no engine.
    """
    components = read_components(open_checkpoint(checkpoint), _NO_FINGERPRINT)
    return [
        plan(found.config, tensors_of(found.author.inputs), limits[name], static_capacity)
        for name, found in components.items()
    ]
