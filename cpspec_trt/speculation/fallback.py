"""Which window runs: the one asked for, or none, with the reason."""

from __future__ import annotations

from cpspec_trt.errors import EngineError
from cpspec_trt.speculation.drafting import Drafting
from cpspec_trt.speculation.statistics import SpeculationStatus

MAX_CODEBOOK = 4096
MIN_DEPTHS = 2


def resolve(drafting: Drafting, groups: int, codebook: int, max_rows: int, rebuild: str) -> SpeculationStatus:
    """Decide whether a CodePredictor can speculate; the fallback is the autoregressive loop, never a narrower window.

    Args:
        drafting: what is asked for.
        groups: code groups of a frame.
        codebook: codes of one group.
        max_rows: new positions the engine's generation profile accepts.
        rebuild: the command that repairs a narrow engine, for the message.

    Raises:
        EngineError: a tree has more rows than the engine takes; says what to build.
    """
    requested, reason = drafting.window, None
    if requested == 0:
        return SpeculationStatus(0, 0)
    if codebook > MAX_CODEBOOK:
        reason = f"the codebook has {codebook} codes, the kernels take at most {MAX_CODEBOOK}"
    elif drafting.tree is not None and drafting.rows > max_rows:
        raise EngineError(
            f"a tree of widths {','.join(map(str, drafting.widths))} has {drafting.rows} rows, the engine's generation "
            f"profile accepts {max_rows} new positions; rebuild it with {rebuild}"
        )
    elif max_rows < requested:
        reason = (
            f"the engine's generation profile accepts {max_rows} new positions, the verify window is {requested}; "
            f"rebuild it with {rebuild}"
        )
    elif groups - 1 < MIN_DEPTHS:
        reason = f"a frame has {groups - 1} RVQ depth to predict, which leaves nothing to draft"
    effective, rule = 0 if reason else requested, drafting.rule.name
    return SpeculationStatus(requested, effective, reason, widths=drafting.tree, rule=rule, adaptive=drafting.adaptive)
