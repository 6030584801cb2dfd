"""Which window runs: the one asked for, or none, with the reason."""

from __future__ import annotations

from cpspec_trt.speculation.statistics import SpeculationStatus

MAX_CODEBOOK = 4096
MIN_DEPTHS = 2


def resolve_window(requested: int, groups: int, codebook: int, max_rows: int, rebuild: str) -> SpeculationStatus:
    """Decide whether a CodePredictor can speculate; the fallback is the autoregressive loop, never a narrower window.

    Args:
        requested: 0 (off) or a valid verify window.
        groups: code groups of a frame.
        codebook: codes of one group.
        max_rows: new positions the engine's generation profile accepts.
        rebuild: the command that repairs a narrow engine, for the message.
    """
    reason = None
    if requested == 0:
        return SpeculationStatus(0, 0)
    if codebook > MAX_CODEBOOK:
        reason = f"the codebook has {codebook} codes, the kernels take at most {MAX_CODEBOOK}"
    elif max_rows < requested:
        reason = (
            f"the engine's generation profile accepts {max_rows} new positions, the verify window is {requested}; "
            f"rebuild it with {rebuild}"
        )
    elif groups - 1 < MIN_DEPTHS:
        reason = f"a frame has {groups - 1} RVQ depth to predict, which leaves nothing to draft"
    return SpeculationStatus(requested, 0 if reason else requested, reason)
