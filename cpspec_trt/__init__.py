"""CodePredictor self-speculative decoding for Qwen3-TTS and Qwen3-Omni."""

__version__ = "0.1.0"
