"""A run of the benchmark, from its options to its result.

Order: everything is opened and prepared; timed turns; then, untimed, recording, examination and laws; last the plain
reads of memory, whose buffers must not count as the run's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cpspec_trt.api.speech import FRAME_SECONDS
from cpspec_trt.bench.contract import contract_of
from cpspec_trt.bench.figures import (
    depth_figures,
    examined_figures,
    law_figures,
    loop_figures,
    request_figures,
    setting_figures,
)
from cpspec_trt.bench.frame_loop import FrameLoop, PredictorParts
from cpspec_trt.bench.inputs import FrameInputs, TalkerLaws, random_inputs, record
from cpspec_trt.bench.jobs import Bench, open_bench
from cpspec_trt.bench.laws import measure_laws
from cpspec_trt.bench.memory import peak_bytes, read_bandwidth, threads_used
from cpspec_trt.bench.options import BenchOptions
from cpspec_trt.bench.prediction import predicted_speedup
from cpspec_trt.bench.set_acceptance import SetAcceptance
from cpspec_trt.bench.settings import AUTOREGRESSIVE, Setting
from cpspec_trt.bench.speaking import checked_status, speak_in_turns
from cpspec_trt.bench.spread import Spread
from cpspec_trt.bench.synthetic import CONFIGURATIONS, INPUT_FILE, synthetic_engines
from cpspec_trt.bench.vocoder import time_chunks
from cpspec_trt.engines.loading import open_engine
from cpspec_trt.engines.onnxruntime import OnnxRuntimeEngine
from cpspec_trt.files.engine_config import (
    MAX_VERIFY_ROWS,
    AnyCode2WavConfig,
    Code2WavConfig,
    CodePredictorConfig,
    OmniCode2WavConfig,
    read_config_of,
)
from cpspec_trt.files.manifest import Manifest, read_manifest
from cpspec_trt.files.pass_costs import PassCosts, read_pass_costs
from cpspec_trt.files.rebuild import ONNXRUNTIME, rebuild_command
from cpspec_trt.files.sidecars import read_code_predictor_sidecars
from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.kernels.rules_protocol import RuleKernels
from cpspec_trt.pipelines.speech import SpeechPipeline
from cpspec_trt.synthetic.omni_spec import OmniSpec

Progress = Callable[[str], None]
RESULT_VERSION = 1
DEFINITIONS: Mapping[str, str] = {
    "realtime_factor": "audio seconds made per second of computing; above 1 is faster than speech. Of a whole request: "
    "its audio over the time from its prompt to its last sample, loading excluded; of a stage alone: over its own time",
    "ms_per_frame": "whole requests: from the end of one frame's codes to that of the next (Talker step and "
    "CodePredictor); the frame loop alone: one frame of the CodePredictor",
    "time_to_first_audio_ms": "from the prompt to the codes of the first chunk, from which code2wav can make sound",
    "speedup": "time of the autoregressive loop over that of the setting, of what was measured in the same turn",
    "predicted_speedup": "passes and heads of the autoregressive loop over those of the rounds that ran, each at its "
    "measured time; nothing else takes time",
    "acceptance": "accepted / reached; a draft is reached if all before it in its round stood; offset 1 is the first",
    "alpha": "sum of min(p, q) = 1 - TV(p, q), of filtered laws, along the autoregressive codes",
    "marginal_alpha": "alpha with q replaced by the mean p of the other frames at that depth: what is gained without "
    "looking at the frame",
    "spread": "median and first and third quartile",
}


def run_bench(options: BenchOptions, progress: Progress = lambda line: None) -> dict[str, Any]:
    """Measure what the options ask for.

    Args:
        options: checked here again, as the command line is not the only caller.
        progress: called with one line per step.

    Raises:
        UsageError: an option cannot work.
        InputFileError, EngineError, UnsupportedError: a file, a request or an engine cannot be used.
        SpeculationRefused: a setting would fall back to the autoregressive loop.
    """
    options.check()
    with _root(options, progress) as root:
        if options.stage == "code2wav":
            found = _code2wav(options, root, progress)
        elif options.stage == "code_predictor" and options.synthetic is not None:
            found = _random_frames(options, root, progress)
        else:
            found = _requests(options, root, progress)
    return {
        "version": RESULT_VERSION,
        "stage": options.stage,
        "synthetic": None
        if options.synthetic is None
        else {"configuration": options.synthetic, "acceptance": options.acceptance},
        "definitions": dict(DEFINITIONS),
        **found,
    }


@contextmanager
def _root(options: BenchOptions, progress: Progress) -> Iterator[Path]:
    """Where the engines lie."""
    if options.engines is not None:
        yield options.engines
        return
    assert options.synthetic is not None  # as was checked
    progress(f"engines of {options.synthetic} with random weights")
    rows = max(MAX_VERIFY_ROWS, *(setting.drafting.rows for setting in options.settings))

    def engines_in(directory: Path) -> Path:
        return synthetic_engines(str(options.synthetic), options.stage, directory, rows, options.seed)

    if options.synthetic_directory is not None:
        yield engines_in(options.synthetic_directory)
        return
    with TemporaryDirectory(prefix="cpspec-bench-") as temporary:
        yield engines_in(Path(temporary) / "engines")


# ---- whole requests, and the frame loop over their frames


def _requests(options: BenchOptions, root: Path, progress: Progress) -> dict[str, Any]:
    progress("opening engines")
    bench = open_bench(root, options.input_file or root / INPUT_FILE, options.frames, options.threads)
    engines = bench.engines
    opened = {"talker": engines.talker, "code_predictor": engines.code_predictor, "code2wav": engines.code2wav}
    manifests = {name: engine.manifest for name, engine in opened.items() if engine is not None}
    contract = contract_of(manifests, threads_used(options.threads), _asked(options), bench.jobs, bench.texts)
    contract["family"] = bench.family
    fixed = {"contract": contract, "frame_seconds": bench.frame_seconds}
    if options.stage == "code_predictor":
        parts = bench.predictor()
        progress("recording frames")
        inputs, talker = _recorded(bench, parts)
        return fixed | _loop_result(options, parts, inputs, talker, bench.frame_seconds, progress)
    timed = _spoken(options, bench, progress)
    peak = peak_bytes()
    if engines.code_predictor.manifest.backend != ONNXRUNTIME:
        return fixed | {
            "settings": [{**timed[setting], **_unexamined()} for setting in options.settings],
            "passes": None,
            "laws": None,
            "peak_memory_bytes": peak,
        }
    parts = bench.predictor()
    progress("recording frames")
    inputs, talker = _recorded(bench, parts)
    loop = FrameLoop(parts, options.settings, options.acceptance)
    examined, laws = _examined(loop, inputs, talker, progress)
    return fixed | {
        "settings": [{**timed[setting], **examined[setting]} for setting in options.settings],
        "passes": _pass_figures(loop, threads_used(options.threads), progress),
        "laws": laws,
        "peak_memory_bytes": peak,
    }


def _spoken(options: BenchOptions, bench: Bench, progress: Progress) -> dict[Setting, dict[str, Any]]:
    pipeline = SpeechPipeline(bench.engines, bench.rules, _kernels(options))
    manifest, directory = bench.engines.code_predictor.manifest, bench.directories.code_predictor
    statuses = {}
    for setting in options.settings:
        limits = {"max_verify_rows": max(MAX_VERIFY_ROWS, setting.drafting.rows)}
        costs = read_pass_costs(directory) if setting.drafting.adaptive else None
        rebuild = rebuild_command(directory, manifest, limits=limits)
        statuses[setting] = checked_status(setting, pipeline.speculation(setting.drafting, rebuild, costs))
    progress("speaking")
    runs = speak_in_turns(pipeline, statuses, bench.jobs, options.repetitions)
    baseline = runs[AUTOREGRESSIVE]
    return {
        setting: setting_figures(setting) | request_figures(runs[setting], baseline, bench.frame_seconds)
        for setting in options.settings
    }


def _kernels(options: BenchOptions) -> RuleKernels | None:
    """Kernels with a set acceptance, or None for those of the runtime."""
    if options.acceptance is None:
        return None
    return SetAcceptance(default_kernels().library, options.acceptance)


def _recorded(bench: Bench, parts: PredictorParts) -> tuple[FrameInputs, TalkerLaws]:
    talker = bench.engines.talker
    assert isinstance(talker, OnnxRuntimeEngine)  # a machine has one kind of engine, and the CodePredictor's is
    return record(bench.engines, talker, parts.stage(), bench.rules, bench.jobs)


# ---- the frame loop over random frames


def _random_frames(options: BenchOptions, root: Path, progress: Progress) -> dict[str, Any]:
    progress("opening the engine")
    directory = root / "code_predictor"
    config = read_config_of(directory, CodePredictorConfig)
    tables = read_code_predictor_sidecars(directory, config)
    engine = OnnxRuntimeEngine(directory, options.threads)
    filters = FilterParameters(temperature=0.9, top_k=50, top_p=1.0)
    codebook = tables.lm_heads.shape[1]
    inputs = random_inputs(config.talker_hidden_size, codebook, options.frames, options.seed, filters)
    codec_embedding = random_inputs(config.talker_hidden_size, codebook, codebook, options.seed, filters).hidden
    parts = PredictorParts(engine, config, tables, codec_embedding, directory)
    asked = _asked(options) | {"frames_are": "random", "filters": _filter_figures(filters)}
    contract = contract_of({"code_predictor": engine.manifest}, threads_used(options.threads), asked, [], [])
    fixed = {"contract": contract, "frame_seconds": FRAME_SECONDS}
    return fixed | _loop_result(options, parts, inputs, None, FRAME_SECONDS, progress)


def _loop_result(
    options: BenchOptions,
    parts: PredictorParts,
    inputs: FrameInputs,
    talker: TalkerLaws | None,
    frame_seconds: float,
    progress: Progress,
) -> dict[str, Any]:
    loop = FrameLoop(parts, options.settings, options.acceptance)
    progress("decoding frames")
    times = loop.time(inputs, options.repetitions)
    peak = peak_bytes()
    examined, laws = _examined(loop, inputs, talker, progress)
    baseline = times[AUTOREGRESSIVE]
    settings = [
        setting_figures(setting) | loop_figures(times[setting], baseline, frame_seconds) | examined[setting]
        for setting in options.settings
    ]
    passes = _pass_figures(loop, threads_used(options.threads), progress)
    return {"settings": settings, "passes": passes, "laws": laws, "peak_memory_bytes": peak}


def _examined(
    loop: FrameLoop, inputs: FrameInputs, talker: TalkerLaws | None, progress: Progress
) -> tuple[dict[Setting, dict[str, Any]], dict[str, Any]]:
    """Untimed: where a frame's time goes and what is accepted, per setting; the laws."""
    figures = {}
    groups, codes = loop.stage.groups, None
    progress("examining every setting")
    for setting, found in loop.examine(inputs).items():
        if setting.autoregressive:
            codes = found.codes
        predicted = predicted_speedup(loop.costs, groups, len(inputs), found.counts.rounds)
        figures[setting] = {
            "predicted_speedup": predicted,
            "acceptance_by_depth": depth_figures(found.counts),
            "frame_loop": examined_figures(found),
        }
    assert codes is not None  # the autoregressive loop is always among the settings
    progress("laws")
    offsets = max(len(setting.drafting.widths) for setting in loop.settings)
    laws = measure_laws(loop.stage, default_kernels(), loop.parts.tables.lm_heads, inputs, codes, offsets)
    return figures, law_figures(laws, talker)


def _unexamined() -> dict[str, Any]:
    """On a device what needs the laws or the host's passes is not measured."""
    return {"predicted_speedup": None, "acceptance_by_depth": None, "frame_loop": None}


def _pass_figures(loop: FrameLoop, threads: int, progress: Progress) -> dict[str, Any]:
    """Bytes of a pass and of a head, and how fast they were read beside a plain read of as many."""
    progress("reading memory")
    costs, heads = loop.costs, loop.parts.tables.lm_heads
    body = sum(file.bytes for file in loop.parts.engine.manifest.files)
    head = heads[0].nbytes
    read = read_bandwidth(body, threads)
    single = read_bandwidth(heads.nbytes, 1)  # the heads' kernels use one thread
    return {
        "rows": list(costs.rows),
        "ms": [1000 * value for value in costs.seconds],
        "head_ms": 1000 * costs.head_seconds,
        "body": _bandwidth(body, costs.of_pass(1), read),
        "head": _bandwidth(head, costs.head_seconds, single),
        "bytes_by_window": {
            setting.name: body + (len(setting.drafting.widths) + setting.drafting.rows) * head
            for setting in loop.settings
            if not setting.drafting.adaptive
        },
    }


def _bandwidth(size: int, seconds: float, read: float) -> dict[str, float | int]:
    achieved = size / seconds
    return {
        "bytes": size,
        "bytes_per_second": achieved,
        "plain_read_bytes_per_second": read,
        "share_of_plain_read": achieved / read,
    }


# ---- code2wav alone


def _code2wav(options: BenchOptions, root: Path, progress: Progress) -> dict[str, Any]:
    progress("opening the engine")
    directory = root / "code2wav"
    manifest: Manifest = read_manifest(directory)
    omni = isinstance(CONFIGURATIONS[options.synthetic], OmniSpec) if options.synthetic else (root / "thinker").is_dir()
    config: AnyCode2WavConfig
    config = read_config_of(directory, OmniCode2WavConfig) if omni else read_config_of(directory, Code2WavConfig)
    engine = open_engine(directory, options.threads, None)
    progress("decoding")
    assert isinstance(engine, OnnxRuntimeEngine)
    found = time_chunks(engine, config, options.frames, options.repetitions, options.seed)
    frame_seconds = config.samples_per_frame / config.sample_rate
    contract = contract_of({"code2wav": manifest}, threads_used(options.threads), _asked(options), [], [])
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


# ---- the contract


def _asked(options: BenchOptions) -> dict[str, Any]:
    return {
        "batch": 1,
        "frames_at_most": options.frames,
        "repetitions": options.repetitions,
        "seed": options.seed,
        "input_file": str(options.input_file) if options.input_file is not None else None,
    }


def _filter_figures(filters: FilterParameters) -> dict[str, Any]:
    return {"temperature": filters.temperature, "top_k": filters.top_k, "top_p": filters.top_p}


__all__ = ["DEFINITIONS", "PassCosts", "run_bench"]
