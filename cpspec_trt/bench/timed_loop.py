"""The frame loop's part of a result."""

from __future__ import annotations

from typing import Any

from cpspec_trt.bench.examination import examine, pass_figures
from cpspec_trt.bench.figures import loop_figures, setting_figures
from cpspec_trt.bench.frame_loop import FrameLoop, PredictorParts
from cpspec_trt.bench.inputs import FrameInputs, TalkerLaws
from cpspec_trt.bench.memory import peak_bytes, threads_used
from cpspec_trt.bench.options import BenchOptions, Progress
from cpspec_trt.bench.settings import AUTOREGRESSIVE


def loop_result(
    options: BenchOptions,
    parts: PredictorParts,
    inputs: FrameInputs,
    talker: TalkerLaws | None,
    frame_seconds: float,
    progress: Progress,
) -> dict[str, Any]:
    """Time the frame loop under every setting, then examine it.

    Args:
        options: of the run.
        parts: the CodePredictor.
        inputs: frames.
        talker: the Talker's laws, where the frames are those of requests.
        frame_seconds: audio seconds of one frame.
        progress: called with one line per step.
    """
    loop = FrameLoop(parts, options.settings, options.acceptance)
    progress("decoding frames")
    times = loop.time(inputs, options.repetitions)
    peak = peak_bytes()
    examined, laws = examine(loop, inputs, talker, progress)
    baseline = times[AUTOREGRESSIVE]
    settings = [
        setting_figures(setting) | loop_figures(times[setting], baseline, frame_seconds) | examined[setting]
        for setting in options.settings
    ]
    passes = pass_figures(loop, threads_used(options.threads), progress)
    return {"settings": settings, "passes": passes, "laws": laws, "peak_memory_bytes": peak}
