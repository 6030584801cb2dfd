"""From what was measured to the figures of a result: plain values that JSON, tables and charts share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cpspec_trt.bench.counting import CountingPolicy
from cpspec_trt.bench.frame_loop import Examined, LoopTimes
from cpspec_trt.bench.inputs import TalkerLaws
from cpspec_trt.bench.laws import Laws
from cpspec_trt.bench.settings import Setting
from cpspec_trt.bench.speaking import SettingRuns, Spoken
from cpspec_trt.bench.spread import Spread
from cpspec_trt.pipelines.times import (
    CODE2WAV,
    CODE_PREDICTOR_GENERATION,
    CODE_PREDICTOR_PREFILL,
    STAGE_IDS,
    TALKER_PREFILL,
)
from cpspec_trt.speculation.statistics import SpeculationStatistics

_PER_REQUEST = (TALKER_PREFILL, CODE2WAV)
_MS = 1000.0


def setting_figures(setting: Setting) -> dict[str, Any]:
    """What a setting is."""
    drafting = setting.drafting
    return {
        "name": setting.name,
        "window": "auto" if drafting.adaptive else drafting.window,
        "rule": None if setting.autoregressive else drafting.rule.name,
        "tree_width": list(drafting.tree) if drafting.tree is not None else None,
    }


def loop_figures(times: LoopTimes, baseline: LoopTimes, frame_seconds: float) -> dict[str, Any]:
    """Figures of the frame loop alone.

    Args:
        times: of one setting.
        baseline: of the autoregressive loop, over the same frames in the same turns.
        frame_seconds: audio seconds of one frame.
    """
    start = [value for each in times.start for value in each]
    rest = [value for each in times.rest for value in each]
    whole = [first + other for first, other in zip(start, rest, strict=True)]
    totals, base = _loop_totals(times), _loop_totals(baseline)
    stages = {CODE_PREDICTOR_PREFILL: start, CODE_PREDICTOR_GENERATION: rest}
    return {
        "ms_per_frame": Spread.of(whole, _MS).to_json(),
        "stages": _stages(stages, len(whole)),
        "realtime_factor": Spread.of(
            [frame_seconds * len(each) / total for each, total in zip(times.start, totals, strict=True)]
        ).to_json(),
        "time_to_first_frame_ms": None,
        "time_to_first_audio_ms": None,
        "speedup_code_predictor": _ratios(base, totals),
        "speedup_request": None,
        **count_figures([times.statistics]),
    }


def request_figures(runs: SettingRuns, baseline: SettingRuns, frame_seconds: float) -> dict[str, Any]:
    """Figures of whole requests; arguments as for ``loop_figures``."""
    all_runs = runs.runs
    stages: dict[str, list[float]] = {}
    for run in all_runs:
        for stage, seconds in run.stages.items():
            stages.setdefault(stage, []).extend(seconds)
    between = [seconds for run in all_runs for seconds in run.frame_seconds]
    return {
        "ms_per_frame": Spread.of(between or [run.first_frame for run in all_runs], _MS).to_json(),
        "stages": _stages(stages, sum(run.frames for run in all_runs)),
        "realtime_factor": Spread.of([frame_seconds * run.frames / run.seconds for run in all_runs]).to_json(),
        "time_to_first_frame_ms": Spread.of([run.first_frame for run in all_runs], _MS).to_json(),
        "time_to_first_audio_ms": Spread.of([run.first_chunk for run in all_runs], _MS).to_json(),
        "speedup_code_predictor": _ratios(_each(baseline, _predictor_per_frame), _each(runs, _predictor_per_frame)),
        "speedup_request": _ratios(_each(baseline, _whole_per_frame), _each(runs, _whole_per_frame)),
        **count_figures([run.statistics for run in all_runs]),
    }


def count_figures(statistics: Sequence[SpeculationStatistics]) -> dict[str, Any]:
    """Passes, rounds and codes; acceptance by draft offset."""
    frames = sum(each.frames for each in statistics)
    rounds = sum(each.rounds for each in statistics)
    offsets = max(len(each.proposed) for each in statistics)

    def total(name: str) -> list[int]:
        columns = [[*getattr(each, name), *[0] * (offsets - len(getattr(each, name)))] for each in statistics]
        return [sum(column) for column in zip(*columns, strict=True)]

    proposed, reached, accepted = total("proposed"), total("reached"), total("accepted")
    return {
        "frames": frames,
        "passes_per_frame": sum(each.passes for each in statistics) / frames,
        "rounds_per_frame": rounds / frames,
        "codes_per_round": sum(each.round_codes for each in statistics) / rounds if rounds else None,
        "guarded": sum(each.guarded for each in statistics),
        "acceptance_by_offset": [
            {
                "offset": at + 1,
                "proposed": of,
                "reached": came,
                "accepted": stood,
                "rate": stood / came if came else None,
            }
            for at, (of, came, stood) in enumerate(zip(proposed, reached, accepted, strict=True))
        ],
    }


def depth_figures(counts: CountingPolicy) -> list[dict[str, Any]]:
    """Acceptance by RVQ depth, over all draft offsets and by each; only depths that a draft reached."""
    reached, accepted = counts.reached.sum(axis=1), counts.accepted.sum(axis=1)
    return [
        {"depth": depth, "reached": int(reached[depth]), "accepted": int(accepted[depth])}
        | {"rate": float(accepted[depth] / reached[depth])}
        | {"reached_by_offset": counts.reached[depth].tolist(), "accepted_by_offset": counts.accepted[depth].tolist()}
        for depth in range(len(reached))
        if reached[depth]
    ]


def examined_figures(found: Examined) -> dict[str, Any]:
    """Where a frame's time went in the metered pass, and the host's share of it per pass."""
    per_pass = found.passes / len(found.host)
    return {
        "engine_ms": Spread.of(found.engine, _MS).to_json(),
        "heads_ms": Spread.of(found.heads, _MS).to_json(),
        "acceptance_ms": Spread.of(found.acceptance, _MS).to_json(),
        "host_ms": Spread.of(found.host, _MS).to_json(),
        "host_us_per_round": Spread.of(found.host, 1e6 / per_pass).to_json(),
    }


def law_figures(laws: Laws, talker: TalkerLaws | None) -> dict[str, Any]:
    """Overlap and flatness; rows of ``alpha`` are draft offsets from 1, columns depths from 1."""
    alpha = laws.alpha.T
    return {
        "frames": laws.frames,
        "alpha": [[_number(value) for value in row] for row in alpha],
        "alpha_by_offset": [_mean(row) for row in alpha],
        "marginal_alpha": [_number(value) for value in laws.marginal],
        "marginal_alpha_mean": _mean(laws.marginal[1:]),
        "entropy_bits": [_number(value) for value in laws.entropy],
        "top1": [_number(value) for value in laws.top1],
        "talker": None
        if talker is None
        else {"entropy_bits": Spread.of(talker.entropy).to_json(), "top1": Spread.of(talker.top1).to_json()},
    }


def _stages(runs: Mapping[str, Sequence[float]], frames: int) -> dict[str, Any]:
    whole = sum(map(sum, runs.values()))
    return {
        stage: {
            "per": "request" if stage in _PER_REQUEST else "frame",
            "ms": Spread.of(runs[stage], _MS).to_json(),
            "ms_per_frame": _MS * sum(runs[stage]) / frames,
            "share": sum(runs[stage]) / whole,
        }
        for stage in STAGE_IDS
        if stage in runs
    }


def _ratios(base: Sequence[float], totals: Sequence[float]) -> dict[str, float | int]:
    """Of what was measured in the same turn: the autoregressive loop's time over the setting's."""
    return Spread.of([before / after for before, after in zip(base, totals, strict=True)]).to_json()


def _loop_totals(times: LoopTimes) -> list[float]:
    return [sum(start) + sum(rest) for start, rest in zip(times.start, times.rest, strict=True)]


def _each(runs: SettingRuns, seconds: Callable[[Spoken], float]) -> list[float]:
    return [seconds(run) for run in runs.runs]


def _predictor_per_frame(run: Spoken) -> float:
    stages = run.stages
    return (sum(stages[CODE_PREDICTOR_PREFILL]) + sum(stages[CODE_PREDICTOR_GENERATION])) / run.frames


def _whole_per_frame(run: Spoken) -> float:
    return run.seconds / run.frames


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _mean(values: np.ndarray) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def _rate(accepted: int, reached: int) -> float | None:
    return accepted / reached if reached else None
