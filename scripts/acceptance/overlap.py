"""sum min(p, q) by depth and offset over recorded frames, of the drafts, of plain marginals, and of warmer drafts."""

from __future__ import annotations

import numpy as np

from cpspec_trt.kernels.loading import default_kernels
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from cpspec_trt.speculation.frame import FrameDecoder
from cpspec_trt.speculation.statistics import SpeculationStatistics, SpeculationStatus
from scripts.acceptance.recorded import Recording

OFFSETS = 4
TEMPERATURES = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5)


class Laws:
    """Logits of recorded frames, teacher-forced along the codes of the autoregressive loop.

    Attributes:
        own: float32 [F, G-1, V], logits of c_(s+1) from the row that decides it.
        drafted: by offset t from 0, float32 [F, G-1, V]: logits of c_(s+1) from the row t+1 earlier; NaN where a frame
            has none.
    """

    def __init__(self, recording: Recording) -> None:
        kernels, predictor, heads = default_kernels(), recording.predictor, recording.heads
        depths, codebook = heads.shape[0], heads.shape[1]
        count = len(recording.first)
        self.own = np.empty((count, depths, codebook), np.float32)
        self.drafted = np.full((OFFSETS, count, depths, codebook), np.nan, np.float32)
        self.filters = recording.filters
        for frame in range(count):
            one = slice(frame, frame + 1)
            rows = [predictor.start_frame(recording.hidden[one], recording.first[one])[0].copy()]
            codes = self._decode(recording, frame)
            for depth in range(1, depths):
                rows.append(predictor.verify(codes[:, depth : depth + 1])[0, 0].copy())
                predictor.commit(np.ones(1, np.int64))
            hidden = np.array(rows)
            for offset in range(-1, OFFSETS):
                of = np.arange(offset + 1, depths)
                logits = np.empty((len(of), codebook), np.float32)
                kernels.grouped_heads(hidden, of - offset - 1, of, heads, logits)
                (self.own if offset < 0 else self.drafted[offset])[frame, of] = logits

    def _decode(self, recording: Recording, frame: int) -> np.ndarray:
        decoder = FrameDecoder(default_kernels(), recording.predictor, recording.heads, 0)
        codes, one = np.empty((1, recording.predictor.groups), np.int64), slice(frame, frame + 1)
        counters = [SpeculationStatistics(SpeculationStatus(0, 0))]
        arguments = recording.hidden[one], recording.first[one], recording.seeds[one], recording.frames[one]
        decoder.decode(*arguments, [recording.filters], codes, counters)
        recording.predictor.start_frame(recording.hidden[one], recording.first[one])
        return codes

    def filtered(self, logits: np.ndarray, warmth: float = 1.0) -> np.ndarray:
        """Laws of logits [..., V], float32; ``warmth`` multiplies the temperature."""
        own = self.filters
        flat = np.ascontiguousarray(logits.reshape(-1, logits.shape[-1]))
        filters = FilterRows.pack([FilterParameters(own.temperature * warmth, own.top_k, own.top_p)])
        out = np.empty_like(flat)
        every = filters.take(np.zeros(len(flat), np.int64))
        default_kernels().filter(flat, every, out, np.empty(len(flat), np.int32))
        return out.reshape(logits.shape)

    def overlap(self, offset: int, frames: slice = slice(None), warmth: float = 1.0) -> np.ndarray:
        """Mean of sum min(p, q) over frames by depth, float64 [G-1]; NaN where no draft of that offset reaches."""
        depths = slice(offset + 1, None)
        p = self.filtered(self.own[frames, depths])
        q = self.filtered(self.drafted[offset][frames, depths], warmth)
        return np.append(np.full(offset + 1, np.nan), np.minimum(p, q).sum(axis=-1).mean(axis=0))

    def marginal_overlap(self) -> np.ndarray:
        """The same, with the mean law of the depth over all frames for q: float64 [G-1]."""
        p = self.filtered(self.own)
        mean: np.ndarray = np.minimum(p, p.mean(axis=0)).sum(axis=-1).mean(axis=0)
        return mean

    def entropy(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean entropy in bits and mean largest probability of p, by depth."""
        p = self.filtered(self.own).astype(float)
        bits = -(p * np.log2(np.maximum(p, 1e-30))).sum(axis=-1).mean(axis=0)
        return bits, p.max(axis=-1).mean(axis=0)

    def best_warmth(self, offset: int) -> tuple[float, float, float]:
        """The temperature that overlaps best on the first half of the frames, and the overlaps on the other half:
        (factor, overlap as it is, overlap with the factor)."""
        half = len(self.own) // 2
        first, second = slice(0, half), slice(half, None)
        best = max(TEMPERATURES, key=lambda warmth: float(np.nanmean(self.overlap(offset, first, warmth))))
        found = [float(np.nanmean(self.overlap(offset, second, warmth))) for warmth in (1.0, best)]
        return best, found[0], found[1]
