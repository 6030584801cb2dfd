"""The flags of ``cpspec-infer`` as one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class InferOptions:
    """Names as in the help; None where a flag was not given."""

    engines: Path | None
    text: str | None
    out: Path | None
    speaker: str | None
    language: str | None
    instruct: str | None
    list_voices: bool
    input_file: Path | None
    engine_dir: Path | None
    talker: Path | None
    code2wav: Path | None
    multimodal: Path | None
    tokenizer: Path | None
    output_file: Path | None
    audio_dir: Path | None
    audio: bool
    batch_size: int | None
    max_generate_length: int | None
    window: int | str
    rule: str
    tree_width: int | tuple[int, ...]
    require_speculation: bool
    fail_on_length: bool
    strict: bool
    warmup: int
    threads: int | None
    dump_profile: bool
    profile_file: Path | None
    dump_output: bool
    debug: bool

    @property
    def requests(self) -> Path:
        """The request file of a run that has one."""
        assert self.input_file is not None
        return self.input_file
