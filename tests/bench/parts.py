"""What tests of the benchmark share: the CodePredictor of built engines, and frames for it."""

from __future__ import annotations

from pathlib import Path

from cpspec_trt.bench.frame_loop import PredictorParts
from cpspec_trt.bench.inputs import FrameInputs, random_inputs
from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine
from cpspec_trt.files.engine_config import CodePredictorConfig, TalkerConfig, read_config_of
from cpspec_trt.files.sidecars import read_code_predictor_sidecars, read_talker_sidecars
from cpspec_trt.kernels.protocol import FilterParameters

SAMPLED = FilterParameters(temperature=0.9, top_k=20, top_p=1.0)
GREEDY = FilterParameters(temperature=0.9, top_k=20, top_p=1.0, do_sample=False)


def predictor_of(engines: Path) -> PredictorParts:
    """The CodePredictor below a root of Qwen3-TTS engines."""
    directory = engines / "code_predictor"
    config = read_config_of(directory, CodePredictorConfig)
    talker = read_talker_sidecars(engines / "talker", read_config_of(engines / "talker", TalkerConfig))
    tables = read_code_predictor_sidecars(directory, config)
    return PredictorParts(OnnxRuntimeEngine(directory, 1), config, tables, talker.codec_embedding, directory)


def frames_for(parts: PredictorParts, count: int, filters: FilterParameters = SAMPLED) -> FrameInputs:
    """Random frames."""
    return random_inputs(parts.config.talker_hidden_size, parts.tables.lm_heads.shape[1], count, 7, filters)
