"""What ``cpspec-infer`` does with every name of ``qwen3_tts_inference``, and what it adds to them."""

from __future__ import annotations

from cpspec_trt.files.compatibility_row import CHECKPOINT, INFER, INFER_TTS, PER_REQUEST, STREAMING, TTS, Row

_CLONING = "voice cloning is not supported; use a CustomVoice or VoiceDesign checkpoint"
_LAYOUT = "the prompt layout of Qwen3-TTS is fixed and always applied"

_TTS_FLAGS = (
    Row(TTS, "flag", "--help", "used", "prints the usage, exit 0"),
    Row(TTS, "flag", "--inputFile", "used", "request file, required", "FILE"),
    Row(TTS, "flag", "--talkerEngineDir", "used", "required; the CodePredictor is its sibling `code_predictor`", "DIR"),
    Row(TTS, "flag", "--code2wavEngineDir", "used", "default: the sibling `code2wav` of the Talker's directory", "DIR"),
    Row(TTS, "flag", "--tokenizerDir", "used", "directory of the tokenizer files", "DIR"),
    Row(TTS, "flag", "--cloneEncoderDir", "refused", _CLONING, "DIR"),
    Row(TTS, "flag", "--checkpointDir", "ignored", CHECKPOINT, "DIR"),
    Row(TTS, "flag", "--outputFile", "used", "output JSON, optional", "FILE"),
    Row(TTS, "flag", "--outputAudioDir", "used", "directory for wav and rvq files; created when missing", "DIR"),
    Row(TTS, "flag", "--batchSize", "used", "1 to 16; overrides the file's `batch_size`", "N"),
    Row(TTS, "flag", "--streaming", "refused", STREAMING),
    Row(TTS, "flag", "--chunkFrames", "refused", STREAMING, "N"),
    Row(
        TTS,
        "flag",
        "--cpSpecVerifySize",
        "used",
        "0 (off), 2 to 8 or auto; above 8 is an error here, the reference silently takes 8",
        "N",
    ),
    Row(TTS, "flag", "--dumpProfile", "used", "prints the time of every stage"),
    Row(TTS, "flag", "--profileOutputFile", "used", "profile as JSON", "FILE"),
    Row(TTS, "flag", "--dumpOutput", "used", "prints every response, which holds its messages, as JSON"),
    Row(TTS, "flag", "--debug", "used", "verbose log"),
)

_INFER_FLAGS = (
    Row(INFER, "flag", "--engines", "used", "one text instead of a request file: directory of all engines", "DIR"),
    Row(INFER, "flag", "--text", "used", "what to say, or Qwen3-Omni's user turn; `-` reads standard input", "TEXT"),
    Row(INFER, "flag", "--out", "used", "with `--text`: the WAV file to write", "FILE"),
    Row(INFER, "flag", "--speaker", "used", "with `--text`: as the field `speaker`", "NAME"),
    Row(INFER, "flag", "--language", "used", "with `--text`, Qwen3-TTS: as the field `language`", "NAME"),
    Row(INFER, "flag", "--instruct", "used", "with `--text`, Qwen3-TTS: as the field `instruct`", "TEXT"),
    Row(INFER, "flag", "--listVoices", "used", "lists speakers and languages; with `--engines` or `--talkerEngineDir`"),
    Row(INFER, "flag", "--cpSpecRule", "used", "rejection (default), block or coupled", "NAME"),
    Row(INFER, "flag", "--cpSpecTreeWidth", "used", "candidates per drafted depth, K or a list; rule coupled", "LIST"),
    Row(INFER, "flag", "--requireSpeculation", "used", "a fallback to the autoregressive loop becomes an error"),
    Row(INFER, "flag", "--failOnLength", "used", "exit 3 when a request ends at its frame cap"),
    Row(INFER, "flag", "--strict", "used", "unknown fields of the request file become errors"),
    Row(INFER, "flag", "--threads", "used", "CPU threads of one engine pass, default every core", "N"),
)

_TTS_FILE_FIELDS = (
    Row(TTS, "file field", "requests", "used", "required, at least one"),
    Row(TTS, "file field", "batch_size", "used", "1 to 16, default 1; accepted, requests run one by one"),
    Row(TTS, "file field", "apply_chat_template", "ignored", _LAYOUT, harmless=(True,)),
    Row(TTS, "file field", "add_generation_prompt", "ignored", _LAYOUT, harmless=(True,)),
    Row(TTS, "file field", "enable_thinking", "ignored", _LAYOUT, harmless=(False,)),
    Row(TTS, "file field", "talker_temperature", "used", "absent or 0: generation_config.json, else 0.9"),
    Row(TTS, "file field", "talker_top_k", "used", "absent or 0: generation_config.json, else 50"),
    Row(TTS, "file field", "talker_top_p", "used", "absent or 0: generation_config.json, else 1.0"),
    Row(
        TTS,
        "file field",
        "repetition_penalty",
        "used",
        "Talker only, 0.001 to 1000; absent: generation_config.json, else 1.05",
    ),
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
    Row(TTS, "file field", "speaker", "used", "a speaker of the checkpoint, or a name of `voice_map.json`"),
    Row(TTS, "file field", "language", "used", "name of the checkpoint's language map, or auto", harmless=("",)),
    Row(TTS, "file field", "instruct", "used", "style, or the voice description of VoiceDesign", harmless=("",)),
    Row(TTS, "file field", "ref_audio", "refused", _CLONING, harmless=("",)),
    Row(TTS, "file field", "ref_text", "refused", _CLONING, harmless=("",)),
)

_TTS_REQUEST_FIELDS = (
    Row(TTS, "request field", "messages", "used", "required; the one message with role `assistant` is spoken"),
    Row(TTS, "request field", "speaker", "used", "overrides the file's value"),
    Row(TTS, "request field", "language", "used", "overrides the file's value", harmless=("",)),
    Row(TTS, "request field", "instruct", "used", "overrides the file's value", harmless=("",)),
    Row(TTS, "request field", "ref_audio", "refused", _CLONING, harmless=("",)),
    Row(TTS, "request field", "ref_text", "refused", _CLONING, harmless=("",)),
    Row(TTS, "message field", "role", "used", "only `assistant` is spoken; other roles are warned about"),
    Row(TTS, "message field", "content", "used", "a string, or a list of text items that are joined"),
    Row(TTS, "content item field", "type", "used", "`text`"),
    Row(TTS, "content item field", "text", "used", "part of the spoken text"),
)

_ADDED_FILE_FIELDS = (
    ("non_streaming_mode", "prompt layout; default true for CustomVoice and VoiceDesign"),
    ("do_sample", "false: greedy Talker; absent: generation_config.json, else true"),
    ("subtalker_do_sample", "false: greedy CodePredictor; absent: generation_config.json, else true"),
    ("sampling_seed", "default 42; a request without its own takes this plus its position"),
)
_ADDED_REQUEST_FIELDS = (
    ("non_streaming_mode", "overrides the file's value"),
    ("do_sample", "overrides the file's value"),
    ("subtalker_do_sample", "overrides the file's value"),
    ("sampling_seed", "the request's effective seed, taken as it is"),
    ("talker_temperature", PER_REQUEST),
    ("talker_top_k", PER_REQUEST),
    ("talker_top_p", PER_REQUEST),
    ("repetition_penalty", PER_REQUEST),
    ("subtalker_temperature", PER_REQUEST),
    ("subtalker_top_k", PER_REQUEST),
    ("subtalker_top_p", PER_REQUEST),
    ("max_audio_length", PER_REQUEST),
)

TTS_ROWS = (
    *_TTS_FLAGS,
    *_INFER_FLAGS,
    *_TTS_FILE_FIELDS,
    *_TTS_REQUEST_FIELDS,
    *(Row(INFER_TTS, "file field", name, "used", note) for name, note in _ADDED_FILE_FIELDS),
    *(Row(INFER_TTS, "request field", name, "used", note) for name, note in _ADDED_REQUEST_FIELDS),
)
