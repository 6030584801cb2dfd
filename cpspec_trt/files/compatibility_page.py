"""``docs/compatibility.md``, rendered from the compatibility table.

``python -m cpspec_trt.files.compatibility_page > docs/compatibility.md``
"""

from __future__ import annotations

from cpspec_trt.files.compatibility import ROWS
from cpspec_trt.files.compatibility_row import (
    AUDIO_BUILD,
    BUILD,
    INFER,
    INFER_OMNI,
    INFER_TTS,
    LLM_BUILD,
    OMNI,
    TTS,
    Row,
)
from cpspec_trt.files.compatibility_sequences import render_sequences

_PREFACE = """\
# Compatibility with the reference tools

What `cpspec-infer` and `cpspec-build` do with every flag and JSON field of TensorRT Edge-LLM's
`qwen3_tts_inference`, `llm_inference`, `llm_build` and `audio_build`. This page is generated
(`python -m cpspec_trt.files.compatibility_page > docs/compatibility.md`) and a test keeps it true.

- **used**: works as in the reference, or as the note says.
- **refused**: an error with the note as its text, exit code 2, before anything is loaded. A value that asks for
  nothing (the reference's default) is accepted.
- **ignored**: a warning with the note as its text. A value that asks for nothing passes without a warning.

A field that stands nowhere below is unknown: it is ignored with a warning, or refused with `--strict`; both give the
known name that was probably meant, if there is one.

`cpspec-infer` stands in for both inference tools: with `--engineDir` (a Thinker) for `llm_inference`, without it
for `qwen3_tts_inference`. A name that only the other tool uses is refused with a message that says so.
"""

# What differs and is no matter of one name. Facts of TensorRT Edge-LLM 0.11.
_DIFFERENCES = (
    "Ties at the edge of top-k: exactly `top_k` codes survive, those of lower index first. PyTorch keeps all that tie.",
    "Top-p keeps the code that crosses the threshold whole, as PyTorch does. The reference truncates its mass.",
    "A verify window above 8 is an error. The reference silently takes 8.",
    "A missing or damaged code2wav is an error if audio is wanted. The reference warns and writes RVQ codes only.",
    "An unknown speaker or language is an error that gives the nearest name. The reference warns and uses a default.",
    "A failure of the audio counts: exit code 1. The reference warns and exits 0.",
    "Sampling values of a request are its own. The reference takes those of the first request for the whole batch.",
    "`voice_map.json` beside the Talker's engine (names of one's own for speakers) is read for both families, "
    "its names work wherever a speaker is given. A name that stands for no speaker of the checkpoint is an error.",
)

_SECTIONS = (
    (TTS, "`qwen3_tts_inference`, replaced by `cpspec-infer`"),
    (INFER_TTS, "Added by `cpspec-infer` to Qwen3-TTS files"),
    (OMNI, "`llm_inference`, replaced by `cpspec-infer` with `--engineDir`"),
    (INFER_OMNI, "Added by `cpspec-infer` to Qwen3-Omni files"),
    (INFER, "Added by `cpspec-infer`"),
    (LLM_BUILD, "`llm_build`, replaced by `cpspec-build`"),
    (AUDIO_BUILD, "`audio_build`, replaced by `cpspec-build`"),
    (BUILD, "Added by `cpspec-build`"),
)


def render() -> str:
    """``docs/compatibility.md`` as text."""
    parts = [_PREFACE, "\n## Differences\n\n", *(f"- {line}\n" for line in _DIFFERENCES), render_sequences()]
    for tool, title in _SECTIONS:
        lines = [f"\n## {title}\n", "| where | name | status | note |", "|---|---|---|---|"]
        for row in ROWS:
            if row.tool == tool:
                lines.append(f"| {row.where} | {_spelling(row)} | {row.status} | {row.note} |")
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _spelling(row: Row) -> str:
    spelled = f"`{row.name} {row.metavar}`" if row.metavar else f"`{row.name}`"
    return ", ".join([spelled, *(f"`{alias}`" for alias in row.aliases)])


if __name__ == "__main__":
    print(render(), end="")
