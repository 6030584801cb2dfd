"""Effective sampling values of a Qwen3-Omni request: the Thinker's, and those it speaks with.

The Thinker's defaults are those of TensorRT Edge-LLM's request file. The published ``generation_config.json`` has
``talker_*`` values only, and neither reference takes the Thinker's values from it (the PyTorch one decodes
greedily unless told otherwise), so this package does not either. ``talker_*`` values of the file are defaults here
as for Qwen3-TTS; the published ones equal the constants of both references.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cpspec_trt.files.omni_requests import OmniRequest
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.sampling.effective import EffectiveSampling, GenerationDefaults, effective_sampling

THINKER_DEFAULTS = FilterParameters(temperature=1.0, top_k=50, top_p=0.8, do_sample=True)
DEFAULT_MAX_GENERATE_LENGTH = 256


@dataclass(frozen=True, slots=True)
class EffectiveOmniSampling:
    """The values one request runs with.

    Attributes:
        thinker: the Thinker's filter.
        max_generate_length: token cap of the Thinker.
        seed: effective seed, in [0, 2**64).
        speech: Talker and CodePredictor (with the same seed); None without audio.
    """

    thinker: FilterParameters
    max_generate_length: int
    seed: int
    speech: EffectiveSampling | None

    @property
    def notes(self) -> tuple[str, ...]:
        """One line per value of 0 that was replaced by the default."""
        return () if self.speech is None else self.speech.notes

    def to_json(self) -> dict[str, Any]:
        """The response's ``sampling``. The keys are request fields: pasted into a request they repeat it."""
        values = {
            "sampling_seed": self.seed,
            "do_sample": self.thinker.do_sample,
            "temperature": self.thinker.temperature,
            "top_k": self.thinker.top_k,
            "top_p": self.thinker.top_p,
            "max_generate_length": self.max_generate_length,
        }
        return values if self.speech is None else values | self.speech.to_json(talker_do_sample="talker_do_sample")


def effective_omni_sampling(request: OmniRequest, defaults: GenerationDefaults | None) -> EffectiveOmniSampling:
    """Complete a request's settings.

    Args:
        request: from the request file.
        defaults: of Talker and CodePredictor (``GenerationDefaults.read(directory, OMNI_FAMILY)``); None without
            audio.
    """
    asked, default = request.thinker, THINKER_DEFAULTS
    return EffectiveOmniSampling(
        thinker=FilterParameters(
            temperature=default.temperature if asked.temperature is None else asked.temperature,
            top_k=default.top_k if asked.top_k is None else asked.top_k,
            top_p=default.top_p if asked.top_p is None else asked.top_p,
            do_sample=default.do_sample if asked.do_sample is None else asked.do_sample,
        ),
        max_generate_length=asked.max_generate_length or DEFAULT_MAX_GENERATE_LENGTH,
        seed=request.seed,
        speech=None if defaults is None else effective_sampling(request.talker, defaults),
    )
