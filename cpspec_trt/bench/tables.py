"""A result on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_QUARTILES = "median and quartiles"


def print_result(result: Mapping[str, Any], console: Console) -> None:
    """Print a result of ``run_bench`` as tables."""
    _print_contract(result, console)
    if result["stage"] == "code2wav":
        _print_chunks(result["chunks"], console)
    else:
        _print_settings(result, console)
        _print_stages(result["settings"], console)
        _print_acceptance(result, console)
        _print_host(result["settings"], console)
        _print_passes(result["passes"], console)
    console.print(f"peak memory {result['peak_memory_bytes'] / 1e6:.0f} MB")
    console.print(f"realtime factor: {result['definitions']['realtime_factor']}", style="dim")


def banner(result: Mapping[str, Any]) -> str | None:
    """What must be said wherever figures of random weights are shown; None for a real model."""
    synthetic = result["synthetic"]
    if synthetic is None:
        return None
    acceptance = synthetic["acceptance"]
    chosen = "their own acceptance" if acceptance is None else f"acceptance set to {acceptance:g}"
    kind = "" if result["stage"] == "code2wav" else f", {chosen}"
    return (
        f"SYNTHETIC: random weights of {synthetic['configuration']}{kind}; nothing here says how a real model accepts"
    )


def threads(count: int) -> str:
    """As a reader expects it."""
    return "1 thread" if count == 1 else f"{count} threads"


def _spread(figure: Mapping[str, float] | None, scale: float = 1.0) -> str:
    """The median, and below it the quartiles, with three or four digits; a dash for nothing."""
    if figure is None:
        return "–"
    low, median, high = (scale * figure[name] for name in ("q1", "median", "q3"))
    digits = 0 if high >= 100 else 1 if high >= 10 else 2
    return f"{median:.{digits}f}\n{low:.{digits}f}–{high:.{digits}f}"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f}"


def _table(title: str, first: str, headings: Sequence[str], padding: int = 1) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        padding=(0, padding),
        title=title,
        title_justify="left",
    )
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _print_contract(result: Mapping[str, Any], console: Console) -> None:
    contract = result["contract"]
    label = banner(result)
    if label is not None:
        console.print(label, style="bold yellow")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column()
    for component, engine in contract["engines"].items():
        size = f"{engine['bytes'] / 1e6:.0f} MB"
        backend = f"{engine['backend']} {engine['backend_version']}"
        table.add_row(component, f"{engine['model']}, {engine['dtype']}, {size}, {backend}")
    machine = contract["machine"]
    load = machine["load_average"][0]
    place = f"{machine['processor']}, {machine['cores']} cores, load {load:.1f}"
    if load > machine["cores"] / 2:
        place += "; BUSY: trust ratios, not times"
    table.add_row("machine", place if machine["gpu"] is None else f"{machine['gpu']} ({place})")
    table.add_row(
        "run", f"{threads(contract['threads'])}, batch 1, settings in turns, {contract['repetitions']} × each"
    )
    for request in contract["requests"]:
        filters = (request[f"subtalker_{name}"] for name in ("temperature", "top_k", "top_p"))
        how = "temperature {:g}, top-k {}, top-p {:g}".format(*filters) if request["subtalker_do_sample"] else "greedy"
        say = request["text"] if len(request["text"]) <= 60 else request["text"][:59] + "…"
        say = escape(say)
        table.add_row(
            "request",
            f"“{say}”, at most {request['frames']} frames, CodePredictor {how}, seed {request['sampling_seed']}",
        )
    if "frames_are" in contract:
        table.add_row("frames", f"{contract['frames_at_most']} {contract['frames_are']} ones, seed {contract['seed']}")
    for line in contract.get("warnings", ()):
        table.add_row("warning", escape(line))
    table.add_row("versions", ", ".join(f"{name} {version}" for name, version in contract["versions"].items()))
    console.print(table)


def _print_settings(result: Mapping[str, Any], console: Console) -> None:
    whole = result["stage"] == "all"
    headings = ["ms\n/frame", "speed-up\nCode-\nPredictor", "speed-up\npre-\ndicted"]
    headings += ["speed-up\nrequest", "first\naudio\ns"] if whole else []
    table = _table(f"settings, {_QUARTILES}", "window", [*headings, "realtime\nfactor"])
    for each in result["settings"]:
        cells = [_spread(each["ms_per_frame"]), _spread(each["speedup_code_predictor"])]
        cells.append(_number(each["predicted_speedup"]))
        if whole:
            cells += [_spread(each["speedup_request"]), _spread(each["time_to_first_audio_ms"], 0.001)]
        table.add_row(each["name"], *cells, _spread(each["realtime_factor"]))
    console.print(table)
    table = _table("rounds", "window", ["frames", "passes\n/frame", "rounds\n/frame", "codes\n/round", "guarded"])
    for each in result["settings"]:
        rates = (_number(each[name], 1) for name in ("passes_per_frame", "rounds_per_frame"))
        codes = _number(each["codes_per_round"])
        table.add_row(each["name"], str(each["frames"]), *rates, codes, str(each["guarded"]))
    console.print(table)


def _print_stages(settings: Sequence[Mapping[str, Any]], console: Console) -> None:
    names = list(settings[0]["stages"])
    headings = [name.replace("_", "\n") for name in names]
    table = _table(f"stages, ms of a run, {_QUARTILES}, share of the compute time", "window", headings)
    for each in settings:
        stages = each["stages"]
        table.add_row(each["name"], *(f"{_spread(stages[name]['ms'])}\n{stages[name]['share']:.0%}" for name in names))
    console.print(table)


def _print_acceptance(result: Mapping[str, Any], console: Console) -> None:
    settings, laws = result["settings"], result["laws"]
    offsets = max(len(each["acceptance_by_offset"]) for each in settings)
    table = _table("acceptance by draft, %", "", [str(at + 1) for at in range(offsets)])
    for each in settings:
        found = [_percent(row["rate"]) for row in each["acceptance_by_offset"]]
        if found:
            table.add_row(f"accepted, {each['name']}", *found, *["–"] * (offsets - len(found)))
    if laws is not None:
        means = [_percent(value) for value in laws["alpha_by_offset"]]
        table.add_row("alpha", *means[:offsets], *["–"] * (offsets - len(means)))
        table.add_row("alpha of the marginal", *[_percent(laws["marginal_alpha_mean"])] * offsets)
    console.print(table)
    if laws is None:
        console.print("alpha and entropy are measured on ONNX Runtime engines alone", style="dim")
    else:
        _print_depths(settings, laws, console)


def _print_depths(settings: Sequence[Mapping[str, Any]], laws: Mapping[str, Any], console: Console) -> None:
    depths = len(laws["entropy_bits"])
    table = _table("by RVQ depth, %", "", [str(depth + 1) for depth in range(depths)], padding=0)  # within 80 columns
    for each in settings:
        rates = {row["depth"]: row["rate"] for row in each["acceptance_by_depth"]}
        if rates:
            table.add_row(f"accepted, {each['name']}", *(_percent(rates.get(depth + 1)) for depth in range(depths)))
    for offset, row in enumerate(laws["alpha"]):
        table.add_row(f"alpha, draft {offset + 1}", *map(_percent, row))
    table.add_row("alpha of marginal", *map(_percent, laws["marginal_alpha"]))
    table.add_row("top-1", *map(_percent, laws["top1"]))
    table.add_row("entropy, bits", *(_number(value, 1) for value in laws["entropy_bits"]))
    console.print(table)
    talker = laws["talker"]
    if talker is not None:
        entropy, top1 = talker["entropy_bits"]["median"], talker["top1"]["median"]
        console.print(f"Talker, medians: entropy {entropy:.2f} bits, top-1 {top1:.0%}; laws of {laws['frames']} frames")


def _print_host(settings: Sequence[Mapping[str, Any]], console: Console) -> None:
    if settings[0]["frame_loop"] is None:
        return
    headings = ["engine\nms", "heads, filters,\ndraws, ms", "acceptance\nms", "host\nms", "host µs\n/round"]
    table = _table(f"inside a CodePredictor frame, metered apart, {_QUARTILES}", "window", headings)
    names = ("engine_ms", "heads_ms", "acceptance_ms", "host_ms")
    for each in settings:
        found = each["frame_loop"]
        table.add_row(each["name"], *(_spread(found[name]) for name in names), _spread(found["host_us_per_round"]))
    console.print(table)


def _print_passes(passes: Mapping[str, Any] | None, console: Console) -> None:
    if passes is None:
        return
    table = _table(
        "bytes of one pass, and how fast they were read", "", ["MB", "ms", "GB/s", "plain read GB/s", "share"]
    )
    milliseconds = {"body": passes["ms"][0], "head": passes["head_ms"]}
    for name, label in (("body", "CodePredictor, one row"), ("head", "one head, one row")):
        found = passes[name]
        cells = (
            f"{found['bytes'] / 1e6:.1f}",
            _number(milliseconds[name], 3),
            f"{found['bytes_per_second'] / 1e9:.1f}",
        )
        plain = f"{found['plain_read_bytes_per_second'] / 1e9:.1f}"
        table.add_row(label, *cells, plain, f"{found['share_of_plain_read']:.0%}")
    console.print(table)
    sizes = ", ".join(f"{rows}: {ms:.2f}" for rows, ms in zip(passes["rows"], passes["ms"], strict=True))
    console.print(f"ms of a pass by rows: {sizes}")
    moved = ", ".join(f"{name}: {size / 1e6:.1f}" for name, size in passes["bytes_of_round"].items())
    console.print(f"MB read per round by window: {moved}")


def _print_chunks(chunks: Sequence[Mapping[str, Any]], console: Console) -> None:
    table = _table("code2wav by chunk", "frames", ["ms / frame", "realtime factor"])
    for each in chunks:
        table.add_row(str(each["chunk_frames"]), _spread(each["ms_per_frame"]), _spread(each["realtime_factor"]))
    console.print(table)
