"""The PyTorch reference of Qwen3-TTS (qwen-tts 0.1.1 on transformers 4.57.3), run greedily in float32.

Needs the environment made by ``make_environment.sh tts``. Besides codes and waveform it reports how clear each
greedy choice was: where two logits nearly tie, another correct implementation may choose the other.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from reference.spies import calls, greedy_margins


def _stub_torchaudio() -> None:
    """Only the 25 Hz tokenizer calls torchaudio, but importing qwen_tts imports it.

    Must run after ``import transformers``, which asks whether the real one is installed.
    """
    package = types.ModuleType("torchaudio")
    compliance = types.ModuleType("torchaudio.compliance")
    kaldi = types.ModuleType("torchaudio.compliance.kaldi")
    package.compliance, compliance.kaldi = compliance, kaldi
    for module in (package, compliance, kaldi):
        sys.modules.setdefault(module.__name__, module)


_stub_torchaudio()
warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

from qwen_tts import Qwen3TTSModel  # noqa: E402
from qwen_tts.core import Qwen3TTSTokenizerV2Config, Qwen3TTSTokenizerV2Model  # noqa: E402
from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration  # noqa: E402


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the reference's public wrapper. VoiceDesign ignores ``speaker``."""

    text: str
    speaker: str | None
    language: str
    instruct: str | None
    non_streaming: bool
    repetition_penalty: float
    max_frames: int


@dataclass(frozen=True, slots=True)
class Spoken:
    """What the reference answered.

    ``codes`` is int64 [frames, groups]; ``waveform`` float32 [samples]; ``margin`` is the smallest gap
    between the best and the second best logit (after every processor) of all ``choices`` made;
    ``bans`` counts the first two steps in which the end of speech had the best logit of all that may follow.
    """

    codes: NDArray[np.int64]
    waveform: NDArray[np.float32]
    sample_rate: int
    finish_reason: str
    margin: float
    choices: int
    bans: int


class PyTorchReference:
    """One checkpoint, loaded in float32."""

    def __init__(self, checkpoint: Path) -> None:
        self._wrapper = Qwen3TTSModel.from_pretrained(str(checkpoint), dtype=torch.float32)
        self._model = self._wrapper.model

    def speak(self, request: Request) -> Spoken:
        """Answer one request greedily, in the Talker and in the CodePredictor."""
        arguments = {
            "text": request.text,
            "language": request.language,
            "instruct": request.instruct,
            "non_streaming_mode": request.non_streaming,
            "repetition_penalty": request.repetition_penalty,
            # The last token is never completed to a frame: it is the end, or one more than the limit.
            "max_new_tokens": request.max_frames + 1,
            "do_sample": False,
            "subtalker_dosample": False,
        }
        with (
            calls(self._model.speech_tokenizer, "decode") as decoded,
            calls(self._model.talker, "generate") as generated,
            greedy_margins() as margins,
            self._end_wanted() as wanted,
        ):
            if self._model.tts_model_type == "voice_design":
                waveforms, sample_rate = self._wrapper.generate_voice_design(**arguments)
            else:
                waveforms, sample_rate = self._wrapper.generate_custom_voice(speaker=request.speaker, **arguments)
        codes = decoded[0][0][0][0]["audio_codes"].numpy()
        frames, groups = codes.shape
        last_token = int(generated[0][1].sequences[0, -1])
        if len(margins) != frames * groups + 1:
            raise AssertionError(f"{len(margins)} greedy choices for {frames} frames of {groups} codes")
        return Spoken(
            codes=codes,
            waveform=waveforms[0],
            sample_rate=sample_rate,
            finish_reason="stop" if last_token == self._model.config.talker_config.codec_eos_token_id else "length",
            margin=min(margins),
            choices=len(margins),
            bans=sum(wanted[:2]),
        )

    def decode(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.float32], int]:
        """Codes [frames, groups] to samples, and the sample rate; one piece up to 300 frames."""
        waveforms, sample_rate = self._model.speech_tokenizer.decode([{"audio_codes": torch.from_numpy(codes)}])
        return waveforms[0], sample_rate

    @contextmanager
    def _end_wanted(self) -> Iterator[list[bool]]:
        """For each step of the Talker: is the end of speech ahead of every code, before any processor?"""
        wanted: list[bool] = []
        config = self._model.config.talker_config
        codebook = config.vocab_size - 1024  # the rest are tags, never spoken

        def spy(_head: torch.nn.Module, _inputs: object, logits: torch.Tensor) -> None:
            last = logits[0, -1]
            wanted.append(bool(last[config.codec_eos_token_id] > last[:codebook].max()))

        hook = self._model.talker.codec_head.register_forward_hook(spy)
        try:
            yield wanted
        finally:
            hook.remove()


def tensor_shapes(config: dict[str, object], speech_config: dict[str, object]) -> dict[str, list[int]]:
    """Names and shapes of every tensor the reference's modules hold for two configs.

    Those of the speech tokenizer are prefixed with ``speech_tokenizer:``. Nothing is allocated.
    """
    with torch.device("meta"):
        model = Qwen3TTSForConditionalGeneration(Qwen3TTSConfig(**config))
        speech = Qwen3TTSTokenizerV2Model(Qwen3TTSTokenizerV2Config(**speech_config))
    shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    return shapes | {f"speech_tokenizer:{name}": list(tensor.shape) for name, tensor in speech.state_dict().items()}
