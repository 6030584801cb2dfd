"""CodePredictor self-speculative decoding for Qwen3-TTS and Qwen3-Omni."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpspec_trt.api.omni import Omni
    from cpspec_trt.api.reply import Reply
    from cpspec_trt.api.speech import Speech
    from cpspec_trt.api.tts import TTS

__version__ = "0.1.0"
_HOMES = {
    "TTS": "cpspec_trt.api.tts",
    "Speech": "cpspec_trt.api.speech",
    "Omni": "cpspec_trt.api.omni",
    "Reply": "cpspec_trt.api.reply",
}
__all__ = ["TTS", "Omni", "Reply", "Speech", "__version__"]


def __getattr__(name: str) -> Any:
    """Load the API on first use, so that the command line's ``--help`` stays free of heavy imports."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
