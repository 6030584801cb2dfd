"""What ``cpspec-infer`` does with every name of ``llm_inference``, and what it adds to them."""

from __future__ import annotations

from cpspec_trt.files.compatibility_row import (
    CHECKPOINT,
    INFER_OMNI,
    LORA,
    OMNI,
    PER_REQUEST,
    STREAMING,
    THINKER_SIZES,
    THINKER_SPECULATION,
    Row,
)

_REUSE = "nothing is kept from one request for the next; every prompt is computed from its first token"
_ENCODERS = "image, audio and video input is not supported; send text"
_LOGPROBS = "log-probabilities are not supported"
_GUIDED = "guided decoding is not supported"
_BIAS = "logit bias is not supported"
_DIFFUSION = "diffusion models are not supported"
_ABSENT_OR_0 = "absent or 0: generation_config.json of the Thinker's directory, else"

_FLAGS = (
    Row(OMNI, "flag", "--help", "used", "prints the usage, exit 0"),
    Row(OMNI, "flag", "--inputFile", "used", "request file, required", "FILE"),
    Row(OMNI, "flag", "--engineDir", "used", "the Thinker's engine and tokenizer; selects Qwen3-Omni", "DIR"),
    Row(OMNI, "flag", "--outputFile", "used", "output JSON, required with `--engineDir`", "FILE"),
    Row(
        OMNI,
        "flag",
        "--multimodalEngineDir",
        "used",
        "`code2wav` is also looked for here; encoders that stand here are not used",
        "DIR",
    ),
    Row(OMNI, "flag", "--checkpointDir", "ignored", CHECKPOINT, "DIR"),
    Row(OMNI, "flag", "--draftCheckpointDir", "refused", THINKER_SPECULATION, "DIR"),
    Row(OMNI, "flag", "--debug", "used", "verbose log"),
    Row(OMNI, "flag", "--dumpProfile", "used", "prints the time of every stage"),
    Row(OMNI, "flag", "--profileOutputFile", "used", "profile as JSON", "FILE"),
    Row(OMNI, "flag", "--warmup", "used", "runs the first request N times, Thinker only; default 0", "N"),
    Row(OMNI, "flag", "--dumpOutput", "used", "prints every response, which holds its messages, as JSON"),
    Row(OMNI, "flag", "--batchSize", "used", "1 to 16; overrides the file's `batch_size`", "N"),
    Row(
        OMNI,
        "flag",
        "--maxGenerateLength",
        "used",
        "overrides `max_generate_length` of the file and of every request",
        "N",
    ),
    Row(OMNI, "flag", "--numLogprobs", "refused", _LOGPROBS, "N", harmless=(0, -1)),
    Row(OMNI, "flag", "--specDecode", "refused", THINKER_SPECULATION, "", ("--eagle",)),
    Row(OMNI, "flag", "--specDraftTopK", "ignored", THINKER_SIZES, "N", ("--eagleDraftTopK",)),
    Row(OMNI, "flag", "--specDraftStep", "ignored", THINKER_SIZES, "N", ("--eagleDraftStep",)),
    Row(
        OMNI,
        "flag",
        "--specVerifySize",
        "ignored",
        THINKER_SIZES,
        "N",
        ("--specVerifyTreeSize", "--eagleVerifyTreeSize"),
    ),
    Row(OMNI, "flag", "--dflashBlockSize", "refused", THINKER_SPECULATION, "N", harmless=(0,)),
    Row(OMNI, "flag", "--jetspecBlockSize", "refused", THINKER_SPECULATION, "N", harmless=(0,)),
    Row(OMNI, "flag", "--dsparkScheduler", "refused", THINKER_SPECULATION, "NAME", harmless=("off",)),
    Row(OMNI, "flag", "--dsparkConfidenceThreshold", "ignored", THINKER_SIZES, "X"),
    Row(OMNI, "flag", "--dsparkMinProposalLen", "ignored", THINKER_SIZES, "N"),
    Row(OMNI, "flag", "--dsparkMaxProposalLen", "ignored", THINKER_SIZES, "N"),
    Row(OMNI, "flag", "--enableContextReuse", "refused", _REUSE),
    Row(OMNI, "flag", "--contextCacheMaxRecords", "ignored", _REUSE, "N"),
    Row(OMNI, "flag", "--contextCacheRecurrentSnapshotPoolBytes", "ignored", _REUSE, "N"),
    Row(OMNI, "flag", "--contextCachePartialKVSnapshotPoolBytes", "ignored", _REUSE, "N"),
    Row(OMNI, "flag", "--encoderCacheBudgetBytes", "ignored", _ENCODERS, "N"),
    Row(OMNI, "flag", "--visualPrune", "refused", _ENCODERS),
    Row(OMNI, "flag", "--visualPruneAlgo", "ignored", _ENCODERS, "NAME"),
    Row(OMNI, "flag", "--dartReductionRatio", "ignored", _ENCODERS, "X"),
    Row(OMNI, "flag", "--dartPivotImageTokens", "ignored", _ENCODERS, "N"),
    Row(OMNI, "flag", "--dartPivotTextTokens", "ignored", _ENCODERS, "N"),
    Row(OMNI, "flag", "--tpSize", "refused", "one device runs the whole model", "N", harmless=(1,)),
    Row(OMNI, "flag", "--enableAudioOutput", "used", "speaks the answers; needs `--talkerEngineDir`"),
    Row(OMNI, "flag", "--talkerEngineDir", "used", "the CodePredictor is its sibling `code_predictor`", "DIR"),
    Row(
        OMNI,
        "flag",
        "--code2wavEngineDir",
        "used",
        "default: the Talker's sibling `code2wav`, else `code2wav` of `--multimodalEngineDir`",
        "DIR",
    ),
    Row(
        OMNI,
        "flag",
        "--outputAudioDir",
        "used",
        "`audio_req{G}_batch{b}.wav` (G the batch group, b the slot in it) and, which the reference does not write, "
        "`rvq_req{G}_batch{b}.safetensors`",
        "DIR",
    ),
    Row(OMNI, "flag", "--enableThinkerTalkerStreaming", "refused", STREAMING),
    Row(OMNI, "flag", "--cpSpecVerifySize", "used", "0 (off), 2 to 8 or auto; 1 and above 8 are errors", "N"),
)

_FILE_FIELDS = (
    Row(OMNI, "file field", "requests", "used", "required, at least one"),
    Row(
        OMNI,
        "file field",
        "batch_size",
        "used",
        "1 to 16, default 1; how many requests form a group in the names of files; requests run one by one",
    ),
    Row(OMNI, "file field", "temperature", "used", "Thinker; absent: 1.0; below 0.001, so also 0, it is greedy"),
    Row(OMNI, "file field", "top_p", "used", "Thinker; absent: 0.8; 1 or more keeps all"),
    Row(OMNI, "file field", "top_k", "used", "Thinker; absent: 50; 0 keeps all"),
    Row(
        OMNI,
        "file field",
        "sampling_seed",
        "used",
        "default 42; a request without its own takes this plus its position",
    ),
    Row(OMNI, "file field", "max_generate_length", "used", "tokens of the Thinker, default 256"),
    Row(
        OMNI,
        "file field",
        "apply_chat_template",
        "used",
        "default true; false: the prompt is all contents joined as they stand",
    ),
    Row(OMNI, "file field", "add_generation_prompt", "used", "default true; handed to the chat template"),
    Row(
        OMNI,
        "file field",
        "enable_thinking",
        "used",
        "handed to the chat template; absent: left undefined there, as the PyTorch reference does (the tool: false)",
    ),
    Row(OMNI, "file field", "spec_proposal_sampling", "refused", THINKER_SPECULATION, harmless=("auto",)),
    Row(OMNI, "file field", "num_logprobs", "refused", _LOGPROBS, harmless=(0,)),
    Row(OMNI, "file field", "logit_bias", "refused", _BIAS, harmless=({}, [])),
    Row(OMNI, "file field", "guided_decoding", "refused", _GUIDED, harmless=({},)),
    Row(OMNI, "file field", "context_cache_lookup_policy", "refused", _REUSE, harmless=("bypass",)),
    Row(OMNI, "file field", "context_cache_commit_policy", "refused", _REUSE),
    Row(OMNI, "file field", "available_lora_weights", "refused", LORA, harmless=({},)),
    Row(OMNI, "file field", "diffusion_config", "refused", _DIFFUSION, harmless=({},)),
    Row(OMNI, "file field", "talker_temperature", "used", f"{_ABSENT_OR_0} 0.9"),
    Row(OMNI, "file field", "talker_top_k", "used", f"{_ABSENT_OR_0} 50"),
    Row(OMNI, "file field", "talker_top_p", "used", f"{_ABSENT_OR_0} 1.0"),
    Row(
        OMNI,
        "file field",
        "repetition_penalty",
        "used",
        "Talker only, 0.001 to 1000; absent: talker_repetition_penalty of generation_config.json, else 1.05",
    ),
    Row(OMNI, "file field", "streaming", "used", "an object, see its fields", harmless=({},)),
    Row(
        OMNI,
        "file field",
        "max_audio_length",
        "used",
        "frames; absent: talker_max_new_tokens - 1 of generation_config.json, else 4095 (documented by the "
        "reference but not read there)",
    ),
    Row(
        OMNI,
        "file field",
        "speaker",
        "used",
        "a speaker of the checkpoint, or a name of `voice_map.json`; absent: the speaker with the lowest id "
        "(documented by the reference but not read there)",
    ),
    Row(OMNI, "streaming field", "enable", "refused", STREAMING, harmless=(False,)),
    Row(OMNI, "streaming field", "codec_chunk_frames", "ignored", STREAMING, harmless=(10,)),
    Row(OMNI, "streaming field", "talker_prefill_threshold", "ignored", STREAMING, harmless=(4,)),
)

_REQUEST_FIELDS = (
    Row(OMNI, "request field", "messages", "used", "required, 1 to 64"),
    Row(OMNI, "request field", "lora_name", "refused", LORA, harmless=("",)),
    Row(OMNI, "request field", "save_system_prompt_kv_cache", "refused", _REUSE, harmless=(False,)),
    Row(
        OMNI,
        "request field",
        "disable_spec_decode",
        "ignored",
        "the Thinker runs without speculation either way",
        harmless=(True, False),
    ),
    Row(OMNI, "request field", "num_logprobs", "refused", _LOGPROBS, harmless=(0,)),
    Row(OMNI, "request field", "sampling_seed", "used", "the request's effective seed, taken as it is"),
    Row(OMNI, "request field", "context_cache_lookup_policy", "refused", _REUSE, harmless=("bypass",)),
    Row(OMNI, "request field", "logit_bias", "refused", _BIAS, harmless=({}, [])),
    Row(OMNI, "request field", "guided_decoding", "refused", _GUIDED, harmless=({},)),
    Row(OMNI, "request field", "stop", "used", "a string or a list of strings that end the answer"),
    Row(OMNI, "message field", "role", "used", "system, user or assistant"),
    Row(OMNI, "message field", "content", "used", "a string, or a list of at most 18 text items; 128 KiB per text"),
    Row(OMNI, "content item field", "type", "used", "`text`; image, audio and video are refused"),
    Row(OMNI, "content item field", "text", "used", "part of the message"),
    *(
        Row(OMNI, "content item field", name, "refused", _ENCODERS)
        for name in ("image", "do_resize", "video", "frames", "fps", "audio")
    ),
)

_ADDED = (
    ("do_sample", "false: greedy Thinker; default true"),
    ("talker_do_sample", "false: greedy Talker; absent: generation_config.json, else true"),
    ("subtalker_do_sample", "false: greedy CodePredictor; default true"),
    ("subtalker_temperature", "CodePredictor; absent or 0: 1.0"),
    ("subtalker_top_k", "CodePredictor; absent or 0: 50"),
    ("subtalker_top_p", "CodePredictor; absent or 0: 0.8"),
)
_OVERRIDES = (
    *("temperature", "top_p", "top_k", "max_generate_length"),
    *("apply_chat_template", "add_generation_prompt", "enable_thinking"),
    *("talker_temperature", "talker_top_k", "talker_top_p", "repetition_penalty", "max_audio_length", "speaker"),
)

OMNI_ROWS = (
    *_FLAGS,
    *_FILE_FIELDS,
    *_REQUEST_FIELDS,
    *(Row(INFER_OMNI, "file field", name, "used", note) for name, note in _ADDED),
    *(Row(INFER_OMNI, "request field", name, "used", "overrides the file's value") for name, _ in _ADDED),
    *(Row(INFER_OMNI, "request field", name, "used", PER_REQUEST) for name in _OVERRIDES),
)
