"""Measure what a built CodePredictor's passes take, for adaptive windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine
from cpspec_trt.errors import UnsupportedError, UsageError
from cpspec_trt.files.engine_config import CodePredictorConfig, read_config_of
from cpspec_trt.files.manifest import MANIFEST_NAME, read_manifest
from cpspec_trt.files.pass_costs import PASS_COSTS_FILE, PassCosts
from cpspec_trt.files.rebuild import ONNXRUNTIME
from cpspec_trt.files.sidecars import read_code_predictor_sidecars
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.stages.code_predictor import CodePredictorStage
from cpspec_trt.stages.pass_times import measure_passes


def measure_pass_costs(directory: Path) -> tuple[Path, PassCosts]:
    """Measure an engine and write the file beside it.

    Args:
        directory: a CodePredictor's engine, or the root of all engines.

    Returns:
        (the file, what it holds).

    Raises:
        UsageError: there is no such engine.
        UnsupportedError: it was built for a GPU.
        EngineError: it is damaged.
    """
    inner = directory / "code_predictor"
    found = inner if inner.is_dir() else directory
    if not (found / MANIFEST_NAME).is_file():
        raise UsageError(f"--measureCosts: {found} holds no engine; give the CodePredictor's directory or its parent")
    if (backend := read_manifest(found).backend) != ONNXRUNTIME:
        raise UnsupportedError(
            f"--measureCosts: {found} was built for {backend}, whose passes are timed when it is opened, for the rule "
            f"coupled; build it with cpspec-build --backend {ONNXRUNTIME}"
        )
    config = read_config_of(found, CodePredictorConfig)
    tables = read_code_predictor_sidecars(found, config)
    first = np.zeros((1, config.talker_hidden_size), np.float32)  # c0's embedding: its values take no time
    stage = CodePredictorStage(OnnxRuntimeEngine(found), config, tables, first)
    costs = measure_passes(stage, default_kernels(), tables.lm_heads)
    costs.write(found)
    return found / PASS_COSTS_FILE, costs
