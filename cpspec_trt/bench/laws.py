"""How far a draft's law overlaps its target's, and how flat both are, over frames that were decoded before.

Nothing here depends on acceptance: the codes of each frame are given, so every row of a frame comes out of a few wide
passes, and every pair (depth d of the code, draft offset t) has its p and its q:

    p    head d - 1 on the row at position d
    q    head d - 1 on the row at position d - 1 - t, the context row of a round that stands at c_(d-1-t)

alpha = sum of min(p, q) = 1 - TV(p, q) is the chance that rejection sampling keeps the draft.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cpspec_trt.bench.inputs import FrameInputs
from cpspec_trt.bench.overlap import entropy_bits, marginal_overlap, overlap
from cpspec_trt.kernels.faults import raise_first
from cpspec_trt.kernels.protocol import F32, I64, FilterRows, Kernels
from cpspec_trt.stages.code_predictor import CodePredictorStage

MAX_FRAMES = 200  # whose laws are kept in memory: 25 MB with codebooks of 2048


@dataclass(frozen=True, slots=True)
class Laws:
    """Means over frames. Index 0 of a depth axis is c1.

    Attributes:
        frames: how many.
        alpha: float64 [G-1, offsets]; NaN where a frame is too short behind the depth for the offset.
        marginal: float64 [G-1], alpha with q replaced by the mean p of the *other* frames at that depth; NaN with one
            frame.
        entropy: float64 [G-1], of p, in bits.
        top1: float64 [G-1], probability of the most probable code.
    """

    frames: int
    alpha: np.ndarray
    marginal: np.ndarray
    entropy: np.ndarray
    top1: np.ndarray


def measure_laws(
    stage: CodePredictorStage, kernels: Kernels, heads: F32, inputs: FrameInputs, codes: I64, offsets: int
) -> Laws:
    """Measure frames that were decoded before.

    Args:
        stage: over the engine, for one sequence.
        kernels: apply heads and filters.
        heads: float32 [G-1, V, H].
        inputs: what each frame started from; the first ``MAX_FRAMES`` are measured.
        codes: int64 [frames, G], what each became.
        offsets: draft offsets.
    """
    frames = min(len(codes), MAX_FRAMES)
    depths = len(heads)
    table = _Pairs.of(depths, offsets)
    count = len(table.depth)
    logits, laws = np.empty((2, count, heads.shape[1]), np.float32)
    errors = np.empty(count, np.int32)
    kept = np.empty((frames, depths, heads.shape[1]), np.float32)
    alpha = np.full((frames, depths, offsets), np.nan)
    stage.reset()
    for frame in range(frames):
        rows = _rows(stage, inputs, codes, frame)
        filters = FilterRows.pack([inputs.filters[frame]] * count)
        kernels.score(rows, table.row, table.depth, heads, filters, logits, laws, errors)
        raise_first(errors, np.zeros(count, np.int64), np.full(count, inputs.frames[frame]), table.depth + 1)
        kept[frame] = laws[:depths]
        drafted = slice(depths, count)
        pairs = overlap(kept[frame][table.depth[drafted]], laws[drafted])
        alpha[frame, table.depth[drafted], table.offset[drafted]] = pairs
    return Laws(
        frames,
        alpha.mean(axis=0),
        np.array([marginal_overlap(kept[:, depth]) for depth in range(depths)]),
        entropy_bits(kept).mean(axis=0),
        kept.max(axis=-1).mean(axis=0, dtype=np.float64),
    )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Every law of a frame: first the p of all depths, then the q of every pair. Row 0 is that at position 1."""

    row: I64
    depth: I64
    offset: I64

    @classmethod
    def of(cls, depths: int, offsets: int) -> _Pairs:
        own = [(depth, depth, -1) for depth in range(depths)]
        drafts = [(depth - 1 - t, depth, t) for depth in range(depths) for t in range(min(offsets, depth))]
        row, depth, offset = np.array([*own, *drafts], np.int64).T
        return cls(np.ascontiguousarray(row), np.ascontiguousarray(depth), np.ascontiguousarray(offset))


def _rows(stage: CodePredictorStage, inputs: FrameInputs, codes: I64, frame: int) -> F32:
    """Rows of positions 1 to G-1, float32 [G-1, H]."""
    fed = codes[frame : frame + 1, 1:-1]
    rows = np.empty((fed.shape[1] + 1, stage.hidden_size), np.float32)
    rows[0] = stage.start_frame(inputs.hidden[frame : frame + 1], codes[frame : frame + 1, 0])[0]
    for begin in range(0, fed.shape[1], stage.max_rows):
        part = fed[:, begin : begin + stage.max_rows]
        rows[1 + begin : 1 + begin + part.shape[1]] = stage.verify(part)[0]
        stage.commit(np.array([part.shape[1]]))
    return rows
