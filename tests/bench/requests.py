"""Request files for tests of the benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_requests(directory: Path, *texts: str, **fields: Any) -> Path:
    """A Qwen3-TTS request file that samples."""
    requests = [{"messages": [{"role": "assistant", "content": text}]} for text in texts]
    path = directory / "input.json"
    path.write_text(json.dumps({"speaker": "ryan", "language": "english", "requests": requests} | fields))
    return path
