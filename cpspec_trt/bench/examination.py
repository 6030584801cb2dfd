"""The untimed part of a run: where a frame's time goes, what is accepted, the laws, and how fast memory is read."""

from __future__ import annotations

from typing import Any

from cpspec_trt.bench.figures import depth_figures, examined_figures, law_figures
from cpspec_trt.bench.frame_loop import FrameLoop
from cpspec_trt.bench.inputs import FrameInputs, TalkerLaws
from cpspec_trt.bench.laws import measure_laws
from cpspec_trt.bench.memory import read_bandwidth
from cpspec_trt.bench.options import Progress
from cpspec_trt.bench.prediction import predicted_speedup
from cpspec_trt.bench.settings import Setting
from cpspec_trt.kernels.loading import default_kernels


def examine(
    loop: FrameLoop, inputs: FrameInputs, talker: TalkerLaws | None, progress: Progress
) -> tuple[dict[Setting, dict[str, Any]], dict[str, Any]]:
    """What the timed turns must not be burdened with.

    Args:
        loop: with the settings; the autoregressive loop is the first of them.
        inputs: frames.
        talker: the Talker's laws, where requests were spoken.
        progress: called with one line per step.

    Returns:
        (figures of each setting, those of the laws).
    """
    progress("examining every setting")
    found = loop.examine(inputs)
    figures = {
        setting: {
            "predicted_speedup": predicted_speedup(loop.costs, loop.stage.groups, len(inputs), each.counts.rounds),
            "acceptance_by_depth": depth_figures(each.counts),
            "frame_loop": examined_figures(each),
        }
        for setting, each in found.items()
    }
    progress("laws")
    codes = found[loop.settings[0]].codes
    offsets = max(len(setting.drafting.widths) for setting in loop.settings)
    laws = measure_laws(loop.stage, default_kernels(), loop.parts.tables.lm_heads, inputs, codes, offsets)
    return figures, law_figures(laws, talker)


def pass_figures(loop: FrameLoop, threads: int, progress: Progress) -> dict[str, Any]:
    """Bytes of a pass and of a head, and how fast they were read beside a plain read of as many.

    A pass reads every weight and the whole KV cache; a head is read once per row that it scores, by one thread.
    """
    progress("reading memory")
    costs, heads, parts = loop.costs, loop.parts.tables.lm_heads, loop.parts
    weights = sum(file.bytes for file in parts.engine.manifest.files)
    body, head = weights + parts.cache_bytes, heads[0].nbytes
    return {
        "rows": list(costs.rows),
        "ms": [1000 * value for value in costs.seconds],
        "head_ms": 1000 * costs.head_seconds,
        "weight_bytes": weights,
        "kv_cache_bytes": parts.cache_bytes,
        "body": _bandwidth(body, costs.of_pass(1), read_bandwidth(body, threads)),
        "head": _bandwidth(head, costs.head_seconds, read_bandwidth(heads.nbytes, 1, pieces=len(heads))),
        "bytes_of_round": {
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
