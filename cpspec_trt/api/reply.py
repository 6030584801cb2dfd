"""What Qwen3-Omni answers, as Python gets it: text, and speech if there is any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cpspec_trt.api.speech import Speech
from cpspec_trt.files.audio import SAMPLE_RATE
from cpspec_trt.files.omni_results import AudioFinishReason
from cpspec_trt.pipelines.text import Answer
from cpspec_trt.sampling.omni import EffectiveOmniSampling
from cpspec_trt.text.chat_template import FormattedPrompt


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered.

    Attributes:
        prompt: as the Thinker saw it.
        answer: the Thinker's text and tokens.
        speech: what was said; None without audio or with nothing to say.
        silence: why nothing was said although audio was wanted.
        sampling: effective values and seed.
        warnings: one line each.
    """

    prompt: FormattedPrompt
    answer: Answer
    speech: Speech | None
    silence: str | None
    sampling: EffectiveOmniSampling
    warnings: tuple[str, ...]

    @property
    def text(self) -> str:
        """The Thinker's text."""
        return self.answer.text

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Every token the Thinker drew, the ending one included."""
        return self.answer.token_ids

    @property
    def finish_reason(self) -> Literal["stop", "length"]:
        """How the text ended."""
        return self.answer.finish_reason

    @property
    def audio_finish_reason(self) -> AudioFinishReason | None:
        """How the speech ended; None without audio."""
        if self.silence is not None:
            return "nothing_to_say"
        return None if self.speech is None else self.speech.finish_reason

    @property
    def samples(self) -> np.ndarray:
        """float32 [samples]; empty without speech."""
        return np.zeros(0, np.float32) if self.speech is None else self.speech.samples

    @property
    def sample_rate(self) -> int:
        """Hz."""
        return SAMPLE_RATE if self.speech is None else self.speech.sample_rate

    @property
    def codes(self) -> np.ndarray:
        """int32 [frames, groups]; no frames without speech."""
        return np.zeros((0, 0), np.int32) if self.speech is None else self.speech.codes
