"""A run of the benchmark, from its options to its result.

Order: everything is opened and prepared; timed turns; then, untimed, recording, examination and laws; last the plain
reads of memory, whose buffers must not count as the run's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cpspec_trt.bench.alone import bench_code2wav, bench_random_frames
from cpspec_trt.bench.options import BenchOptions, Progress
from cpspec_trt.bench.synthetic import synthetic_engines
from cpspec_trt.bench.whole import bench_requests
from cpspec_trt.files.engine_config import MAX_VERIFY_ROWS

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
            found = bench_code2wav(options, root, progress)
        elif options.stage == "code_predictor" and options.synthetic is not None:
            found = bench_random_frames(options, root, progress)
        else:
            found = bench_requests(options, root, progress)
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
