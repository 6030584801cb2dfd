"""Requests: spoken whole, or the frame loop alone over their frames."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from cpspec_trt.bench.contract import contract_of
from cpspec_trt.bench.examination import examine, pass_figures
from cpspec_trt.bench.figures import request_figures, setting_figures
from cpspec_trt.bench.frame_loop import FrameLoop, PredictorParts
from cpspec_trt.bench.inputs import FrameInputs, TalkerLaws, record
from cpspec_trt.bench.jobs import Bench, open_bench
from cpspec_trt.bench.memory import peak_bytes, threads_used
from cpspec_trt.bench.options import BenchOptions, Progress
from cpspec_trt.bench.set_acceptance import SetAcceptance
from cpspec_trt.bench.settings import AUTOREGRESSIVE, Setting
from cpspec_trt.bench.speaking import SettingRuns, checked_status, speak_in_turns
from cpspec_trt.bench.synthetic import INPUT_FILE
from cpspec_trt.bench.timed_loop import loop_result
from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine
from cpspec_trt.files.engine_config import MAX_VERIFY_ROWS
from cpspec_trt.files.pass_costs import read_pass_costs
from cpspec_trt.files.rebuild import ONNXRUNTIME, rebuild_command
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.rules_protocol import RuleKernels
from cpspec_trt.pipelines.speech import SpeechPipeline

# On a device what needs the laws, or passes of the host, is not measured.
_UNEXAMINED = {"predicted_speedup": None, "acceptance_by_depth": None, "frame_loop": None}


def bench_requests(options: BenchOptions, root: Path, progress: Progress) -> dict[str, Any]:
    """Measure the requests of a file on the engines below ``root``; see ``run.run_bench``."""
    progress("opening engines")
    bench = open_bench(root, options.input_file or root / INPUT_FILE, options.frames, options.threads)
    engines, threads = bench.engines, threads_used(options.threads)
    opened = {"talker": engines.talker, "code_predictor": engines.code_predictor, "code2wav": engines.code2wav}
    manifests = {name: engine.manifest for name, engine in opened.items() if engine is not None}
    contract = contract_of(manifests, threads, options.asked(), bench.jobs, bench.texts) | {
        "family": bench.family,
        "warnings": list(bench.warnings),
    }
    fixed = {"contract": contract, "frame_seconds": bench.frame_seconds}
    if options.stage == "code_predictor":
        parts = bench.predictor()
        progress("recording frames")
        return fixed | loop_result(options, parts, *_recorded(bench, parts), bench.frame_seconds, progress)
    timed = _spoken(options, bench, progress)
    peak = peak_bytes()
    if engines.code_predictor.manifest.backend != ONNXRUNTIME:
        settings = [timed[setting] | _UNEXAMINED for setting in options.settings]
        return fixed | {"settings": settings, "passes": None, "laws": None, "peak_memory_bytes": peak}
    parts = bench.predictor()
    progress("recording frames")
    inputs, talker = _recorded(bench, parts)
    loop = FrameLoop(parts, options.settings, options.acceptance)
    examined, laws = examine(loop, inputs, talker, progress)
    settings = [timed[setting] | examined[setting] for setting in options.settings]
    passes = pass_figures(loop, threads, progress)
    return fixed | {"settings": settings, "passes": passes, "laws": laws, "peak_memory_bytes": peak}


def _spoken(options: BenchOptions, bench: Bench, progress: Progress) -> dict[Setting, dict[str, Any]]:
    with closing(SpeechPipeline(bench.engines, bench.rules, _kernels(options))) as pipeline:
        runs = _runs(options, bench, pipeline, progress)
    baseline = runs[AUTOREGRESSIVE]
    return {
        setting: setting_figures(setting) | request_figures(runs[setting], baseline, bench.frame_seconds)
        for setting in options.settings
    }


def _runs(
    options: BenchOptions, bench: Bench, pipeline: SpeechPipeline, progress: Progress
) -> dict[Setting, SettingRuns]:
    manifest, directory = bench.engines.code_predictor.manifest, bench.directories.code_predictor
    statuses = {}
    for setting in options.settings:
        limits = {"max_verify_rows": max(MAX_VERIFY_ROWS, setting.drafting.rows)}
        costs = read_pass_costs(directory) if setting.drafting.adaptive else None
        rebuild = rebuild_command(directory, manifest, limits=limits)
        statuses[setting] = checked_status(setting, pipeline.speculation(setting.drafting, rebuild, costs))
    progress("speaking")
    return speak_in_turns(pipeline, statuses, bench.jobs, options.repetitions)


def _kernels(options: BenchOptions) -> RuleKernels | None:
    """Kernels with a set acceptance, or None for those of the runtime."""
    if options.acceptance is None:
        return None
    return SetAcceptance(default_kernels().library, options.acceptance)


def _recorded(bench: Bench, parts: PredictorParts) -> tuple[FrameInputs, TalkerLaws]:
    talker = bench.engines.talker
    assert isinstance(talker, OnnxRuntimeEngine)  # Talker and CodePredictor are of one kind
    return record(bench.engines, talker, parts.stage(), bench.rules, bench.jobs)
