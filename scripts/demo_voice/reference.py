"""The one place that imports qwen-tts (classes only, none of its weights)."""

from __future__ import annotations

import sys
import types
import warnings

import transformers

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

# qwen-tts imports torchaudio for its 25 Hz tokenizer, which is not used here. The stand-in has to come after
# transformers, which looks for the real one at import.
for _name in ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi"):
    sys.modules.setdefault(_name, types.ModuleType(_name))
sys.modules["torchaudio"].compliance = sys.modules["torchaudio.compliance"]  # type: ignore[attr-defined]
sys.modules["torchaudio.compliance"].kaldi = sys.modules["torchaudio.compliance.kaldi"]  # type: ignore[attr-defined]

from qwen_tts import Qwen3TTSModel  # noqa: E402
from qwen_tts.core import Qwen3TTSTokenizerV2Config, Qwen3TTSTokenizerV2Model  # noqa: E402
from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration  # noqa: E402

__all__ = [
    "Qwen3TTSConfig",
    "Qwen3TTSForConditionalGeneration",
    "Qwen3TTSModel",
    "Qwen3TTSTokenizerV2Config",
    "Qwen3TTSTokenizerV2Model",
]
