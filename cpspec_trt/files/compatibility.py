"""Every flag and JSON field of the reference tools, and what this package does with it.

One table serves three readers: the request reader and the command lines take their refusals and
warnings from it, and ``docs/compatibility.md`` is its rendering
(``python -m cpspec_trt.files.compatibility > docs/compatibility.md``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Where = Literal["flag", "file field", "request field", "message field", "content item field"]
Status = Literal["used", "refused", "ignored"]

INFER = "cpspec-infer"
BUILD = "cpspec-build"
TTS = "qwen3_tts_inference"
OMNI = "llm_inference"
LLM_BUILD = "llm_build"
AUDIO_BUILD = "audio_build"

# Which tools each command stands in for. Where two tools share a name the earlier one decides.
COMMANDS: dict[str, tuple[str, ...]] = {INFER: (TTS, INFER, OMNI), BUILD: (LLM_BUILD, AUDIO_BUILD, BUILD)}

_OMNI_NOTE = "Qwen3-Omni input; not in this release"
# The Thinker's sampling values, which people who want speech write by mistake.
_OMNI_NOTES = {name: f"{_OMNI_NOTE}; for speech use talker_{name}" for name in ("temperature", "top_k", "top_p")}
_CLONING = "voice cloning is not supported; use a CustomVoice or VoiceDesign checkpoint"
_STREAMING = "streaming output is not in this release; the whole file is written when a request is done"
_LAYOUT = "the prompt layout of Qwen3-TTS is fixed and always applied"
_PER_REQUEST = "overrides the file's value (the reference reads it from the file only)"


@dataclass(frozen=True, slots=True)
class Row:
    """One name of one tool.

    Attributes:
        tool: the reference tool that defines the name, or the command of ours that adds it.
        where: what kind of name it is.
        name: the long flag or the JSON key.
        status: used; refused (an error with ``note``); ignored (a warning with ``note``).
        note: one phrase; for refused and ignored names it is the message.
        metavar: what a flag's value is; "" for a switch.
        aliases: other spellings of a flag.
        harmless: values that ask for nothing (the reference's defaults); they pass without a word.
    """

    tool: str
    where: Where
    name: str
    status: Status
    note: str
    metavar: str = ""
    aliases: tuple[str, ...] = ()
    harmless: tuple[object, ...] = ()


_TTS_FLAGS = (
    Row(TTS, "flag", "--help", "used", "prints the usage, exit 0"),
    Row(TTS, "flag", "--inputFile", "used", "request file, required", "FILE"),
    Row(TTS, "flag", "--talkerEngineDir", "used", "required; the CodePredictor is its sibling `code_predictor`", "DIR"),
    Row(TTS, "flag", "--code2wavEngineDir", "used", "default: the sibling `code2wav` of the Talker's directory", "DIR"),
    Row(TTS, "flag", "--tokenizerDir", "used", "directory of the tokenizer files", "DIR"),
    Row(TTS, "flag", "--cloneEncoderDir", "refused", _CLONING, "DIR"),
    Row(TTS, "flag", "--checkpointDir", "ignored", "the engine directory holds all weights", "DIR"),
    Row(TTS, "flag", "--outputFile", "used", "output JSON, optional", "FILE"),
    Row(TTS, "flag", "--outputAudioDir", "used", "directory for wav and rvq files; created when missing", "DIR"),
    Row(TTS, "flag", "--batchSize", "used", "1 to 16; overrides the file's `batch_size`", "N"),
    Row(TTS, "flag", "--streaming", "refused", _STREAMING),
    Row(TTS, "flag", "--chunkFrames", "refused", _STREAMING, "N"),
    Row(
        TTS,
        "flag",
        "--cpSpecVerifySize",
        "used",
        "0 (off) or 2 to 8; above 8 is an error here, the reference silently takes 8",
        "N",
    ),
    Row(TTS, "flag", "--dumpProfile", "ignored", "profiles are not in this release; the summary table is printed"),
    Row(
        TTS,
        "flag",
        "--profileOutputFile",
        "refused",
        "profile files are not in this release; the output JSON holds the statistics of each request",
        "FILE",
    ),
    Row(TTS, "flag", "--dumpOutput", "used", "prints inputs and outputs"),
    Row(TTS, "flag", "--debug", "used", "verbose log"),
)

_INFER_FLAGS = (
    Row(INFER, "flag", "--requireSpeculation", "used", "a fallback to the autoregressive loop becomes an error"),
    Row(INFER, "flag", "--failOnLength", "used", "exit 3 when a request ends at its frame cap"),
    Row(INFER, "flag", "--strict", "used", "unknown fields of the request file become errors"),
)

_TTS_FILE_FIELDS = (
    Row(TTS, "file field", "requests", "used", "required, at least one"),
    Row(TTS, "file field", "batch_size", "used", "1 to 16, default 1; decides how many requests run together"),
    Row(TTS, "file field", "apply_chat_template", "ignored", _LAYOUT, harmless=(True,)),
    Row(TTS, "file field", "add_generation_prompt", "ignored", _LAYOUT, harmless=(True,)),
    Row(TTS, "file field", "enable_thinking", "ignored", _LAYOUT, harmless=(False,)),
    Row(TTS, "file field", "talker_temperature", "used", "absent or 0: generation_config.json, else 0.9"),
    Row(TTS, "file field", "talker_top_k", "used", "absent or 0: generation_config.json, else 50"),
    Row(TTS, "file field", "talker_top_p", "used", "absent or 0: generation_config.json, else 1.0"),
    Row(TTS, "file field", "repetition_penalty", "used", "absent: generation_config.json, else 1.05; Talker only"),
    Row(TTS, "file field", "subtalker_temperature", "used", "absent or 0: generation_config.json, else 0.9"),
    Row(TTS, "file field", "subtalker_top_k", "used", "absent or 0: generation_config.json, else 50"),
    Row(TTS, "file field", "subtalker_top_p", "used", "absent or 0: generation_config.json, else 1.0"),
    Row(
        TTS,
        "file field",
        "max_audio_length",
        "used",
        "frames; absent: max_new_tokens - 1 of generation_config.json, else 2047",
    ),
    Row(TTS, "file field", "speaker", "used", "name of the checkpoint's speaker map"),
    Row(TTS, "file field", "language", "used", "name of the checkpoint's language map, or auto"),
    Row(TTS, "file field", "instruct", "used", "style, or the voice description of VoiceDesign"),
    Row(TTS, "file field", "ref_audio", "refused", _CLONING, harmless=("",)),
    Row(TTS, "file field", "ref_text", "refused", _CLONING, harmless=("",)),
)

_TTS_REQUEST_FIELDS = (
    Row(TTS, "request field", "messages", "used", "required; the one message with role `assistant` is spoken"),
    Row(TTS, "request field", "speaker", "used", "overrides the file's value"),
    Row(TTS, "request field", "language", "used", "overrides the file's value"),
    Row(TTS, "request field", "instruct", "used", "overrides the file's value"),
    Row(TTS, "request field", "ref_audio", "refused", _CLONING, harmless=("",)),
    Row(TTS, "request field", "ref_text", "refused", _CLONING, harmless=("",)),
    Row(TTS, "message field", "role", "used", "only `assistant` is spoken; other roles are warned about"),
    Row(TTS, "message field", "content", "used", "a string, or a list of text items that are joined"),
    Row(TTS, "content item field", "type", "used", "`text`"),
    Row(TTS, "content item field", "text", "used", "part of the spoken text"),
)

_INFER_FILE_FIELDS = (
    ("non_streaming_mode", "prompt layout; default true for CustomVoice and VoiceDesign"),
    ("do_sample", "false: greedy Talker; absent: generation_config.json, else true"),
    ("subtalker_do_sample", "false: greedy CodePredictor; absent: generation_config.json, else true"),
    ("sampling_seed", "default 42; a request without its own takes this plus its position"),
)
_INFER_REQUEST_FIELDS = (
    ("non_streaming_mode", "overrides the file's value"),
    ("do_sample", "overrides the file's value"),
    ("subtalker_do_sample", "overrides the file's value"),
    ("sampling_seed", "the request's effective seed, taken as it is"),
    ("talker_temperature", _PER_REQUEST),
    ("talker_top_k", _PER_REQUEST),
    ("talker_top_p", _PER_REQUEST),
    ("repetition_penalty", _PER_REQUEST),
    ("subtalker_temperature", _PER_REQUEST),
    ("subtalker_top_k", _PER_REQUEST),
    ("subtalker_top_p", _PER_REQUEST),
    ("max_audio_length", _PER_REQUEST),
)

_BUILD_FLAGS = (
    Row(LLM_BUILD, "flag", "--help", "used", "prints the usage, exit 0"),
    Row(LLM_BUILD, "flag", "--onnxDir", "used", "exported component; required unless `--checkpoint` is given", "DIR"),
    Row(LLM_BUILD, "flag", "--engineDir", "used", "where the engine goes, required", "DIR"),
    Row(LLM_BUILD, "flag", "--maxInputLen", "used", "most new positions of the context profile, default 1024", "N"),
    Row(LLM_BUILD, "flag", "--optInputLen", "used", "default 0: half of `--maxInputLen`", "N"),
    Row(LLM_BUILD, "flag", "--maxBatchSize", "used", "default 4", "N"),
    Row(LLM_BUILD, "flag", "--maxKVCacheCapacity", "used", "default 4096", "N"),
    Row(LLM_BUILD, "flag", "--maxKVPoolPages", "ignored", "KV caches are contiguous, there is no page pool", "N"),
    Row(LLM_BUILD, "flag", "--maxLoraRank", "refused", "LoRA adapters are not supported", "N", harmless=(0,)),
    Row(
        LLM_BUILD, "flag", "--specBase", "refused", "speculation of the Thinker is not supported", "", ("--eagleBase",)
    ),
    Row(
        LLM_BUILD,
        "flag",
        "--specDraft",
        "refused",
        "speculation of the Thinker is not supported",
        "",
        ("--eagleDraft",),
    ),
    Row(LLM_BUILD, "flag", "--maxVerifyTreeSize", "ignored", "sizes the Thinker's speculation only", "N"),
    Row(LLM_BUILD, "flag", "--maxDraftTreeSize", "ignored", "sizes the Thinker's speculation only", "N"),
    Row(LLM_BUILD, "flag", "--profilingDetailed", "ignored", "detailed layer profiles are not in this release"),
    Row(LLM_BUILD, "flag", "--debug", "used", "verbose log"),
    Row(AUDIO_BUILD, "flag", "--onnxDir", "used", "exported component", "DIR", ("-o",)),
    Row(AUDIO_BUILD, "flag", "--engineDir", "used", "where the engine goes", "DIR", ("-e",)),
    Row(AUDIO_BUILD, "flag", "--debug", "used", "verbose log", "", ("-d",)),
    Row(AUDIO_BUILD, "flag", "--help", "used", "prints the usage, exit 0", "", ("-h",)),
    Row(AUDIO_BUILD, "flag", "--minTimeSteps", "ignored", "audio encoders are not in this release", "N", ("-m",)),
    Row(AUDIO_BUILD, "flag", "--maxTimeSteps", "ignored", "audio encoders are not in this release", "N", ("-M",)),
    Row(AUDIO_BUILD, "flag", "--minCodeLen", "used", "fewest frames of one code2wav pass, default 1", "N"),
    Row(AUDIO_BUILD, "flag", "--optCodeLen", "used", "frames the engine is tuned for, default 300", "N"),
    Row(AUDIO_BUILD, "flag", "--maxCodeLen", "used", "most frames of one code2wav pass, default 2000", "N"),
    Row(BUILD, "flag", "--checkpoint", "used", "exports and builds every component in one go", "DIR"),
    Row(BUILD, "flag", "--backend", "used", "auto, onnxruntime, tensorrt or tensorrt-rtx", "NAME"),
    Row(BUILD, "flag", "--config", "used", "build preset", "FILE"),
    Row(BUILD, "flag", "--dryRun", "used", "prints the plan and stops"),
)

_OMNI_FLAGS = (
    ("--help", ""),
    ("--inputFile", "FILE"),
    ("--engineDir", "DIR"),
    ("--outputFile", "FILE"),
    ("--multimodalEngineDir", "DIR"),
    ("--checkpointDir", "DIR"),
    ("--draftCheckpointDir", "DIR"),
    ("--debug", ""),
    ("--dumpProfile", ""),
    ("--profileOutputFile", "FILE"),
    ("--warmup", "N"),
    ("--dumpOutput", ""),
    ("--batchSize", "N"),
    ("--maxGenerateLength", "N"),
    ("--numLogprobs", "N"),
    ("--specDecode", "", "--eagle"),
    ("--specDraftTopK", "N", "--eagleDraftTopK"),
    ("--specDraftStep", "N", "--eagleDraftStep"),
    ("--specVerifySize", "N", "--specVerifyTreeSize", "--eagleVerifyTreeSize"),
    ("--dflashBlockSize", "N"),
    ("--jetspecBlockSize", "N"),
    ("--dsparkScheduler", "NAME"),
    ("--dsparkConfidenceThreshold", "X"),
    ("--dsparkMinProposalLen", "N"),
    ("--dsparkMaxProposalLen", "N"),
    ("--enableContextReuse", ""),
    ("--contextCacheMaxRecords", "N"),
    ("--contextCacheRecurrentSnapshotPoolBytes", "N"),
    ("--contextCachePartialKVSnapshotPoolBytes", "N"),
    ("--encoderCacheBudgetBytes", "N"),
    ("--visualPrune", ""),
    ("--visualPruneAlgo", "NAME"),
    ("--dartReductionRatio", "X"),
    ("--dartPivotImageTokens", "N"),
    ("--dartPivotTextTokens", "N"),
    ("--tpSize", "N"),
    ("--enableAudioOutput", ""),
    ("--talkerEngineDir", "DIR"),
    ("--code2wavEngineDir", "DIR"),
    ("--outputAudioDir", "DIR"),
    ("--enableThinkerTalkerStreaming", ""),
    ("--cpSpecVerifySize", "N"),
)

_OMNI_FIELDS: tuple[tuple[Where, str], ...] = (
    (
        "file field",
        "requests batch_size temperature top_p top_k sampling_seed max_generate_length apply_chat_template "
        "add_generation_prompt enable_thinking spec_proposal_sampling num_logprobs logit_bias guided_decoding "
        "context_cache_lookup_policy context_cache_commit_policy available_lora_weights diffusion_config "
        "talker_temperature talker_top_k talker_top_p repetition_penalty streaming max_audio_length speaker",
    ),
    (
        "request field",
        "messages lora_name save_system_prompt_kv_cache disable_spec_decode num_logprobs sampling_seed "
        "context_cache_lookup_policy logit_bias guided_decoding stop",
    ),
    ("message field", "role content"),
    ("content item field", "type text image do_resize video frames fps audio"),
)


def _all_rows() -> Iterable[Row]:
    yield from (*_TTS_FLAGS, *_INFER_FLAGS, *_TTS_FILE_FIELDS, *_TTS_REQUEST_FIELDS)
    yield from (Row(INFER, "file field", name, "used", note) for name, note in _INFER_FILE_FIELDS)
    yield from (Row(INFER, "request field", name, "used", note) for name, note in _INFER_REQUEST_FIELDS)
    yield from _BUILD_FLAGS
    for name, metavar, *aliases in _OMNI_FLAGS:
        yield Row(OMNI, "flag", name, "refused", _OMNI_NOTE, metavar, tuple(aliases))
    for where, names in _OMNI_FIELDS:
        yield from (Row(OMNI, where, name, "refused", _OMNI_NOTES.get(name, _OMNI_NOTE)) for name in names.split())


ROWS: tuple[Row, ...] = tuple(_all_rows())


def rows_for(command: str, where: Where) -> dict[str, Row]:
    """Name (aliases included) -> the row that decides it for ``command`` (a key of ``COMMANDS``)."""
    found: dict[str, Row] = {}
    for tool in COMMANDS[command]:
        for row in ROWS:
            if row.tool == tool and row.where == where:
                for name in (row.name, *row.aliases):
                    found.setdefault(name, row)
    return found


_PREFACE = """\
# Compatibility with the reference tools

What `cpspec-infer` and `cpspec-build` do with every flag and JSON field of TensorRT Edge-LLM's
`qwen3_tts_inference`, `llm_inference`, `llm_build` and `audio_build`. This page is generated
(`python -m cpspec_trt.files.compatibility > docs/compatibility.md`) and a test keeps it true.

- **used**: works as in the reference, or as the note says.
- **refused**: an error with the note as its text, exit code 2, before anything is loaded. A value that asks for
  nothing (the reference's default) is accepted.
- **ignored**: a warning with the note as its text. A value that asks for nothing passes without a warning.

A field that stands nowhere below is unknown: it is ignored with a warning that gives the nearest known name,
or refused with `--strict`. Where `qwen3_tts_inference` and `llm_inference` share a name, `cpspec-infer` follows
the row of `qwen3_tts_inference`.
"""

_SECTIONS = (
    (TTS, "`qwen3_tts_inference`, replaced by `cpspec-infer`"),
    (INFER, "Added by `cpspec-infer`"),
    (LLM_BUILD, "`llm_build`, replaced by `cpspec-build`"),
    (AUDIO_BUILD, "`audio_build`, replaced by `cpspec-build`"),
    (BUILD, "Added by `cpspec-build`"),
    (OMNI, "`llm_inference`"),
)


def render() -> str:
    """``docs/compatibility.md`` as text."""
    parts = [_PREFACE]
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
