"""The plan of a checkpoint is the plan of its export."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpspec_trt.builder.exported import read_export
from cpspec_trt.builder.preview import plan_checkpoint
from cpspec_trt.builder.profiles import COMPONENTS, BuildLimits, plan
from cpspec_trt.errors import CheckpointError
from cpspec_trt.graphs.export import export_checkpoint
from tests.checkpoint.changes import PRETRAINED

DEMO = Path(__file__).resolve().parents[2] / "assets" / "demo-voice" / "checkpoint"
LIMITS = BuildLimits(max_input_len=100, max_batch_size=3)


@pytest.mark.parametrize("checkpoint", [DEMO, PRETRAINED], ids=["Qwen3-TTS", "Qwen3-Omni"])
def test_the_plan_of_a_checkpoint_is_the_plan_of_its_export(tmp_path: Path, checkpoint: Path) -> None:
    previews = plan_checkpoint(checkpoint, dict.fromkeys(COMPONENTS, LIMITS))
    written = export_checkpoint(checkpoint, tmp_path)
    exports = [read_export(directory) for directory in written.values()]
    assert previews == [plan(exported.config, exported.inputs, LIMITS) for exported in exports]


def test_a_checkpoint_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="absent"):
        plan_checkpoint(tmp_path / "absent", dict.fromkeys(COMPONENTS, LIMITS))
