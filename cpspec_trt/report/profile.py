"""Profile of a run: the JSON of the reference's ``--profileOutputFile``, with a ``code_predictor`` block added.

The reference times stages on the GPU. Here ``total_gpu_time_ms`` and ``gpu_time_stats`` hold what ``time_source`` says:
wall-clock times, or for stages that a GPU runs by itself the GPU's. The keys keep their names so that tools that read
them go on working. ``gpu_submissions`` says per request what was put into the GPU's stream, in all and per frame.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from cpspec_trt.devices.device import DeviceWork
from cpspec_trt.pipelines.times import LLM_GENERATION, LLM_PREFILL, STAGE_IDS, StageTimes
from cpspec_trt.speculation.statistics import SpeculationStatistics


class Profile:
    """Collects what a run did, request by request."""

    def __init__(self) -> None:
        self._times = StageTimes()
        self._began = time.perf_counter()
        self._prompt_tokens = 0
        self._text_tokens: list[int] = []
        self._frames: list[int] = []
        self._statistics: list[SpeculationStatistics] = []
        self._work: list[tuple[int, DeviceWork]] = []

    def add_text(self, times: StageTimes, prompt_tokens: int, generated_tokens: int) -> None:
        """Count one answer of the Thinker."""
        self._times.merge(times)
        self._prompt_tokens += prompt_tokens
        self._text_tokens.append(generated_tokens)

    def add_speech(
        self, times: StageTimes, frames: int, speculation: SpeculationStatistics, work: DeviceWork | None = None
    ) -> None:
        """Count one speech; ``work`` is what a GPU did for its codes."""
        self._times.merge(times)
        self._frames.append(frames)
        self._statistics.append(speculation)
        if work is not None:
            self._work.append((frames, work))

    def to_json(self, groups: int) -> dict[str, Any]:
        """The whole profile.

        Args:
            groups: code groups of a frame.
        """
        wall_ms = 1000 * (time.perf_counter() - self._began)
        tokens = sum(self._text_tokens) or sum(self._frames)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        runs = self._times.runs()
        profile: dict[str, Any] = {}
        if self._text_tokens:
            profile |= self._text(runs)
        if self._frames:
            profile["talker"] = {
                "total_runs": len(self._frames),
                "total_audio_outputs": sum(frames > 0 for frames in self._frames),
                "total_audio_codes": groups * sum(self._frames),
                "average_codes_per_output": groups * sum(self._frames) / len(self._frames),
            }
            profile["code_predictor"] = [statistics.to_json() for statistics in self._statistics]
        if self._work:
            profile["gpu_submissions"] = [work.to_json(frames) for frames, work in self._work]
        gpu = max((work.memory_in_use for _, work in self._work), default=0)
        return profile | {
            "time_source": "GPU events for Talker and CodePredictor, else wall clock" if self._work else "wall clock",
            "stages": [_stage(name, runs[name]) for name in STAGE_IDS if name in runs],
            "peak_gpu_memory_bytes": gpu,
            "peak_gpu_memory_mb": gpu / 2**20,
            "peak_cpu_memory_bytes": peak,
            "peak_cpu_memory_mb": peak / 2**20,
            "gpu_memory_metric": "in use on the GPU after each request" if self._work else "no GPU used",
            "wall_clock": {
                "tp_size": 1,
                "generated_tokens": tokens,
                "total_time_ms": wall_ms,
                "tokens_per_second": 1000 * tokens / wall_ms,
                "ms_per_token": wall_ms / tokens if tokens else 0.0,
            },
        }

    def _text(self, runs: Mapping[str, Sequence[float]]) -> dict[str, Any]:
        count, tokens = len(self._text_tokens), sum(self._text_tokens)
        generation = runs.get(LLM_GENERATION, ())
        return {
            "prefill": {"total_runs": len(runs[LLM_PREFILL]), "total_tokens": self._prompt_tokens},
            "generation": {
                "total_runs": count,
                "total_iterations": len(generation),
                "total_generated_tokens": tokens,
                "average_tokens_per_run": tokens / count,
                "overall_tokens_per_second_excluding_base_prefill": len(generation) / sum(generation)
                if generation
                else 0.0,
            },
        }


def print_profile(profile: Mapping[str, Any], console: Console) -> None:
    """Print the stages of a profile as a table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="stages, wall-clock ms")
    table.add_column("stage", no_wrap=True)
    for heading in ("runs", "total", "mean", "median", "p95", "p99"):
        table.add_column(heading, justify="right")
    for stage in profile["stages"]:
        found = stage["gpu_time_stats"]
        values = (found[f"{name}_ms"] for name in ("mean", "median", "p95", "p99"))
        numbers = [f"{value:.2f}" for value in (stage["total_gpu_time_ms"], *values)]
        table.add_row(stage["stage_id"], str(stage["total_runs"]), *numbers)
    console.print(table)


def _stage(name: str, seconds: Sequence[float]) -> dict[str, Any]:
    milliseconds = sorted(1000 * value for value in seconds)
    return {
        "stage_id": name,
        "total_runs": len(milliseconds),
        "total_gpu_time_ms": sum(milliseconds),
        "average_time_per_run_ms": statistics.fmean(milliseconds),
        "gpu_time_stats": {
            "count": len(milliseconds),
            "min_ms": milliseconds[0],
            "max_ms": milliseconds[-1],
            "mean_ms": statistics.fmean(milliseconds),
            "median_ms": statistics.median(milliseconds),
            "p95_ms": _percentile(milliseconds, 0.95),
            "p99_ms": _percentile(milliseconds, 0.99),
            "stddev_ms": statistics.pstdev(milliseconds),
        },
    }


def _percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed (nearest rank)."""
    rank = -(-len(ordered) * share // 1)
    return ordered[max(int(rank) - 1, 0)]
