"""What is measured without requests: the frame loop over random frames, and code2wav over random codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cpspec_trt.api.speech import FRAME_SECONDS
from cpspec_trt.bench.contract import contract_of
from cpspec_trt.bench.frame_loop import PredictorParts
from cpspec_trt.bench.inputs import random_inputs
from cpspec_trt.bench.memory import peak_bytes, threads_used
from cpspec_trt.bench.options import BenchOptions, Progress
from cpspec_trt.bench.spread import Spread
from cpspec_trt.bench.synthetic import OMNI
from cpspec_trt.bench.timed_loop import loop_result
from cpspec_trt.bench.vocoder import time_chunks
from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine
from cpspec_trt.files.engine_config import (
    AnyCode2WavConfig,
    Code2WavConfig,
    CodePredictorConfig,
    OmniCode2WavConfig,
    read_config_of,
)
from cpspec_trt.files.sidecars import read_code_predictor_sidecars
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.pipelines.engine_set import require_directory

# What the published checkpoints of Qwen3-TTS recommend for the CodePredictor.
_FILTERS = FilterParameters(temperature=0.9, top_k=50, top_p=1.0)


def bench_random_frames(options: BenchOptions, root: Path, progress: Progress) -> dict[str, Any]:
    """Measure a CodePredictor that has no Talker; see ``run.run_bench``."""
    progress("opening the engine")
    directory = root / "code_predictor"
    config = read_config_of(directory, CodePredictorConfig)
    tables = read_code_predictor_sidecars(directory, config)
    engine = OnnxRuntimeEngine(directory, options.threads)
    width, codebook = config.talker_hidden_size, int(tables.lm_heads.shape[1])
    inputs = random_inputs(width, codebook, options.frames, options.seed, _FILTERS)
    codec_embedding = random_inputs(width, codebook, codebook, options.seed, _FILTERS).hidden
    parts = PredictorParts(engine, config, tables, codec_embedding, directory)
    filters = {name: getattr(_FILTERS, name) for name in ("temperature", "top_k", "top_p")}
    asked = options.asked() | {"frames_are": "random", "filters": filters}
    contract = contract_of({"code_predictor": engine.manifest}, threads_used(options.threads), asked, [], [])
    fixed = {"contract": contract, "frame_seconds": FRAME_SECONDS}
    return fixed | loop_result(options, parts, inputs, None, FRAME_SECONDS, progress)


def bench_code2wav(options: BenchOptions, root: Path, progress: Progress) -> dict[str, Any]:
    """Measure code2wav in chunks of several sizes; see ``run.run_bench``."""
    progress("opening the engine")
    directory = require_directory(root / "code2wav", "code2wav")
    omni = options.synthetic == OMNI or (root / "thinker").is_dir()
    config: AnyCode2WavConfig
    config = read_config_of(directory, OmniCode2WavConfig) if omni else read_config_of(directory, Code2WavConfig)
    engine = OnnxRuntimeEngine(directory, options.threads)
    progress("decoding")
    found = time_chunks(engine, config, options.frames, options.repetitions, options.seed)
    frame_seconds = config.samples_per_frame / config.sample_rate
    contract = contract_of({"code2wav": engine.manifest}, threads_used(options.threads), options.asked(), [], [])
    chunks = [
        {
            "chunk_frames": size,
            "ms_per_frame": Spread.of(seconds, 1000).to_json(),
            "realtime_factor": Spread.of([frame_seconds / value for value in seconds]).to_json(),
        }
        for size, seconds in found.items()
    ]
    fixed = {"contract": contract, "frame_seconds": frame_seconds}
    return fixed | {"chunks": chunks, "peak_memory_bytes": peak_bytes()}
