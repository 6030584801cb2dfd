"""CodePredictor self-speculative decoding for Qwen3-TTS and Qwen3-Omni."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpspec_trt.api import TTS, Speech

__version__ = "0.1.0"
__all__ = ["TTS", "Speech", "__version__"]


def __getattr__(name: str) -> Any:
    """Load the API on first use, so that the command line's ``--help`` stays free of heavy imports."""
    if name in ("TTS", "Speech"):
        from cpspec_trt import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
