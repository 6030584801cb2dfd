"""The decoders of Qwen3-Omni that scripts/make_omni_decoder_goldens.py and the tests of this room run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from cpspec_trt.synthetic.omni_layout import omni_tensors
from cpspec_trt.synthetic.omni_spec import TINY_OMNI, Code2WavSpec
from cpspec_trt.synthetic.weights import TensorPlan

CODEBOOK, GROUPS = TINY_OMNI.codebook_size, TINY_OMNI.num_code_groups
EPSILON, THETA = 1e-5, 1e4
SEED = 22
SHORT = (1, 2)  # frames of the sequences whose number of samples is kept besides


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """A decoder, random sequences of equal length, and how much is kept: every ``stride``-th sample."""

    shape: Code2WavSpec
    sequences: int
    frames: int
    stride: int


_TINY = TINY_OMNI.code2wav
_FRAMES = 5 * _TINY.sliding_window
# Where a waveform is long, every 7th sample: 7 divides no rate, so all phases and channels take part.
CASES: Mapping[str, GoldenCase] = MappingProxyType(
    {
        "tiny": GoldenCase(_TINY, 2, _FRAMES, 1),
        # Two query heads for each KV head, and other rates.
        "grouped": GoldenCase(
            replace(_TINY, num_key_value_heads=2, upsample_rates=(3, 2, 2), upsampling_ratios=(2,)), 2, _FRAMES, 1
        ),
        "published_rates": GoldenCase(replace(_TINY, decoder_dim=64, upsample_rates=(8, 5, 4, 3)), 2, _FRAMES, 7),
        # More frames than the reference decodes in one piece, unless told to.
        "long": GoldenCase(_TINY, 1, 330, 7),
    }
)


def decoder_tensors(shape: Code2WavSpec) -> list[TensorPlan]:
    """The tensors of a decoder, by their names in a checkpoint."""
    return [plan for plan in omni_tensors(replace(TINY_OMNI, code2wav=shape)) if plan.name.startswith("code2wav.")]


def random_codes(case: GoldenCase) -> np.ndarray:
    """Codes int64 [sequences, groups, frames]."""
    return np.random.default_rng(SEED).integers(CODEBOOK, size=(case.sequences, GROUPS, case.frames))
