"""A result as a picture: acceptance by depth, speed-up by window, time per stage. Loads matplotlib when it draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cpspec_trt.bench.tables import banner, threads
from cpspec_trt.errors import UsageError
from cpspec_trt.files.atomic import atomic_file

# Okabe and Ito's palette, which people with any kind of colour vision tell apart.
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#E69F00", "#009E73", "#999999"
_STAGES = {
    "talker_prefill": ("Talker, prompt", "#56B4E9"),
    "talker_generation": ("Talker, steps", _BLUE),
    "codepredictor_prefill": ("CodePredictor, first pass", "#F0E442"),
    "codepredictor_generation": ("CodePredictor, rounds", _ORANGE),
    "code2wav": ("code2wav", _GREEN),
}
_PARTS = {
    "engine_ms": ("passes of the engine", _BLUE),
    "heads_ms": ("heads, filters, draws", "#56B4E9"),
    "acceptance_ms": ("acceptance", _ORANGE),
    "host_ms": ("host", "#CC79A7"),
}
_WIDTH, _HEIGHT, _DPI = 16.0, 5.4, 110
_SHADES = (1.0, 0.6, 0.35)  # of alpha's line by draft offset; more lines would hide one another


def check_matplotlib() -> None:
    """Find out whether charts can be drawn, without loading anything.

    Raises:
        UsageError: matplotlib is not installed; says how to install it.
    """
    if find_spec("matplotlib") is None:
        raise UsageError("--plotFile needs matplotlib; install it with: pip install 'cpspec-trt[plots]'")


def draw_charts(result: Mapping[str, Any], path: Path) -> None:
    """Draw a result of ``run_bench`` and write it as PNG.

    Raises:
        UsageError: matplotlib is not installed.
        OSError: the place cannot be written.
    """
    check_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    if result["stage"] == "code2wav":
        _draw_chunks(figure.subplots(1, 1), result)
    else:
        acceptance, speedup, stages = figure.subplots(1, 3, width_ratios=(1.15, 1, 1.25))
        draw_acceptance = _draw_offsets if result["laws"] is None else _draw_acceptance
        draw_acceptance(acceptance, result)
        _draw_speedup(speedup, result)
        _draw_times(stages, result)
    figure.suptitle(_title(result), fontsize=12)
    label = banner(result)
    if label is not None:
        figure.supxlabel(label, color="#D55E00", fontsize=11, fontweight="bold")
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="png")


def _title(result: Mapping[str, Any]) -> str:
    contract = result["contract"]
    engines = contract["engines"]
    engine = engines["code2wav" if result["stage"] == "code2wav" else "code_predictor"]
    machine = contract["machine"]
    where = machine["gpu"] or machine["processor"]
    what = f"{engine['model']}, {engine['dtype']}, {engine['backend']}"
    return f"{what}; {where}, {threads(contract['threads'])}; batch 1"


def _draw_acceptance(axes: Any, result: Mapping[str, Any]) -> None:
    laws, settings = result["laws"], result["settings"]
    every = range(1, len(laws["entropy_bits"]) + 1)
    for offset, (row, shade) in enumerate(zip(laws["alpha"], _SHADES, strict=False)):
        axes.plot(every, _gaps(row), color=_BLUE, alpha=shade, label=f"overlap 1 − TV, draft {offset + 1}")
    marginal = _gaps(laws["marginal_alpha"])
    axes.plot(every, marginal, color=_GREY, linestyle="--", label="overlap of the plain marginal")
    depths, rates = _first_drafts(settings)
    if depths:
        axes.plot(depths, rates, "o", color=_ORANGE, label="accepted, draft 1")
    if result["synthetic"] is not None and result["synthetic"]["acceptance"] is not None:
        axes.axhline(result["synthetic"]["acceptance"], color=_ORANGE, linestyle=":", label="acceptance that was set")
    axes.set(title="Acceptance by RVQ depth", xlabel="depth of the code", ylabel="probability", ylim=(0, 1.02))
    axes.grid(axis="y", color="#DDDDDD")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=8, frameon=False)


def _draw_offsets(axes: Any, result: Mapping[str, Any]) -> None:
    """What a device tells of acceptance: by draft offset alone."""
    for each in result["settings"]:
        rows = [row for row in each["acceptance_by_offset"] if row["rate"] is not None]
        if rows:
            at, rates = [row["offset"] for row in rows], [row["rate"] for row in rows]
            axes.plot(at, rates, "o-", label=f"window {each['name']}")
    axes.set(title="Acceptance by draft", xlabel="draft of the round", ylabel="probability", ylim=(0, 1.02))
    axes.grid(axis="y", color="#DDDDDD")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, fontsize=8, frameon=False)


def _first_drafts(settings: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[float]]:
    """Depths, and acceptance of the first draft there, over all windows of the first rule's chains."""
    drafting = [each for each in settings if each["acceptance_by_depth"]]
    chosen = [each for each in drafting if each["rule"] == drafting[0]["rule"] and each["tree_width"] is None]
    counts: dict[int, tuple[int, int]] = {}
    for row in (row for each in chosen for row in each["acceptance_by_depth"]):
        reached, accepted = counts.get(row["depth"], (0, 0))
        counts[row["depth"]] = reached + row["reached_by_offset"][0], accepted + row["accepted_by_offset"][0]
    found = {depth: accepted / reached for depth, (reached, accepted) in sorted(counts.items()) if reached}
    return list(found), list(found.values())


def _draw_speedup(axes: Any, result: Mapping[str, Any]) -> None:
    settings = [each for each in result["settings"] if each["rule"] is not None]
    series: list[tuple[str, str, list[Mapping[str, float] | None]]] = [
        ("CodePredictor, measured", _ORANGE, [each["speedup_code_predictor"] for each in settings]),
        ("CodePredictor, predicted", _GREY, [_exactly(each["predicted_speedup"]) for each in settings]),
        ("whole request, measured", _BLUE, [each["speedup_request"] for each in settings]),
    ]
    series = [each for each in series if any(value is not None for value in each[2])]
    width = 0.8 / len(series)
    for place, (label, color, values) in enumerate(series):
        at = [x - 0.4 + width * (place + 0.5) for x in range(len(settings))]
        heights = [0.0 if value is None else value["median"] for value in values]
        below = [0.0 if value is None else value["median"] - value["q1"] for value in values]
        above = [0.0 if value is None else value["q3"] - value["median"] for value in values]
        axes.bar(at, heights, width * 0.92, color=color, label=label)
        axes.errorbar(at, heights, (below, above), fmt="none", ecolor="#333333", elinewidth=1)
        for x, height, high in zip(at, heights, above, strict=True):
            turned = 90 if len(settings) > 4 else 0
            axes.annotate(f"{height:.2f}", (x, height + high), ha="center", va="bottom", fontsize=8, rotation=turned)
    axes.axhline(1, color="#333333", linewidth=1)
    axes.set_xticks(range(len(settings)), [each["name"].replace(" ", "\n") for each in settings])
    axes.set(title="Speed-up over the autoregressive loop", xlabel="verify window", ylabel="times as fast")
    axes.margins(y=0.12)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=8, frameon=False)


def _draw_times(axes: Any, result: Mapping[str, Any]) -> None:
    whole = result["stage"] == "all"
    settings = list(reversed(result["settings"]))
    parts = _STAGES if whole else _PARTS
    left = [0.0] * len(settings)
    for key, (label, color) in parts.items():
        found = [_part(each, key, whole) for each in settings]
        axes.barh(range(len(settings)), found, left=left, color=color, label=label, height=0.7)
        for y, (begin, value) in enumerate(zip(left, found, strict=True)):
            if value > 0.07 * max(1e-9, _longest(settings, parts, whole)):
                axes.annotate(f"{value:.1f}", (begin + value / 2, y), ha="center", va="center", fontsize=8)
        left = [begin + value for begin, value in zip(left, found, strict=True)]
    for y, total in enumerate(left):
        axes.annotate(f" {total:.1f}", (total, y), ha="left", va="center", fontsize=9, fontweight="bold")
    realtime = 1000 * result["frame_seconds"]
    if 0.2 * realtime < max(left) and whole:
        axes.axvline(realtime, color="#D55E00", linewidth=1)
        axes.annotate("realtime ", (realtime, 0), color="#D55E00", ha="right", va="center", rotation=90, fontsize=9)
    axes.set_yticks(range(len(settings)), [each["name"] for each in settings])
    title = "Time per frame, by stage" if whole else "Time of a CodePredictor frame, by part"
    axes.set(title=title, xlabel="ms per frame", ylabel="verify window")
    axes.margins(x=0.12)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, fontsize=8, frameon=False)


def _draw_chunks(axes: Any, result: Mapping[str, Any]) -> None:
    chunks = result["chunks"]
    factors = [each["realtime_factor"]["median"] for each in chunks]
    axes.bar(range(len(chunks)), factors, 0.6, color=_GREEN)
    for x, factor in enumerate(factors):
        axes.annotate(f"{factor:.2f}", (x, factor), ha="center", va="bottom")
    axes.axhline(1, color="#333333", linewidth=1)
    axes.set_xticks(range(len(chunks)), [str(each["chunk_frames"]) for each in chunks])
    axes.set(title="code2wav", xlabel="frames per chunk", ylabel="realtime factor (audio seconds per second)")


def _part(setting: Mapping[str, Any], key: str, whole: bool) -> float:
    if whole:
        return float(setting["stages"][key]["ms_per_frame"]) if key in setting["stages"] else 0.0
    return float(setting["frame_loop"][key]["median"])


def _longest(settings: Sequence[Mapping[str, Any]], parts: Mapping[str, Any], whole: bool) -> float:
    return max(sum(_part(each, key, whole) for key in parts) for each in settings)


def _exactly(value: float | None) -> Mapping[str, float] | None:
    return None if value is None else {"q1": value, "median": value, "q3": value}


def _gaps(values: Sequence[float | None]) -> list[float]:
    """matplotlib leaves a gap at NaN."""
    return [float("nan") if value is None else value for value in values]
