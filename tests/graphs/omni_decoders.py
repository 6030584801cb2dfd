"""The decoders of Qwen3-Omni that scripts/make_omni_decoder_goldens.py and the tests of this room run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cpspec_trt.files.engine_config import OMNI_CODE2WAV_MODEL, OmniCode2WavConfig
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


def golden(name: str, what: str) -> np.ndarray:
    """Of the reference: ``waveform`` [sequences, samples], or ``lengths`` in samples of ``SHORT`` and of all frames."""
    with np.load(Path(__file__).with_name("omni_code2wav_golden.npz")) as arrays:
        found: np.ndarray = arrays[f"{name}_{what}"]
    return found


def decoder_config(name: str) -> OmniCode2WavConfig:
    """The config of a case; the reference says how many samples are missing."""
    case = CASES[name]
    fields: dict[str, Any] = {
        field: value for field, value in asdict(case.shape).items() if field in OmniCode2WavConfig.__slots__
    }
    samples = math.prod((*case.shape.upsample_rates, *case.shape.upsampling_ratios))
    return OmniCode2WavConfig(
        **fields,
        model=OMNI_CODE2WAV_MODEL,
        checkpoint_fingerprint="none",
        num_quantizers=GROUPS,
        codebook_size=CODEBOOK,
        head_dim=case.shape.hidden_size // case.shape.num_attention_heads,
        rms_norm_eps=EPSILON,
        rope_theta=THETA,
        samples_per_frame=samples,
        trimmed_samples=case.frames * samples - int(golden(name, "lengths")[-1]),
        sample_rate=24_000,
    )
