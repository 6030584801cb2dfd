"""What ``cpspec-build`` does with every flag of ``llm_build`` and ``audio_build``, and what it adds to them."""

from __future__ import annotations

from cpspec_trt.files.compatibility_row import (
    AUDIO_BUILD,
    BUILD,
    LLM_BUILD,
    LORA,
    THINKER_SIZES,
    THINKER_SPECULATION,
    Row,
)

BUILD_ROWS = (
    Row(LLM_BUILD, "flag", "--help", "used", "prints the usage, exit 0"),
    Row(LLM_BUILD, "flag", "--onnxDir", "used", "exported component; required unless `--checkpoint` is given", "DIR"),
    Row(LLM_BUILD, "flag", "--engineDir", "used", "where the engine goes, required", "DIR"),
    Row(LLM_BUILD, "flag", "--maxInputLen", "used", "most new positions of the context profile, default 1024", "N"),
    Row(LLM_BUILD, "flag", "--optInputLen", "used", "default 0: half of `--maxInputLen`", "N"),
    Row(LLM_BUILD, "flag", "--maxBatchSize", "used", "default 4", "N"),
    Row(LLM_BUILD, "flag", "--maxKVCacheCapacity", "used", "default 4096", "N"),
    Row(LLM_BUILD, "flag", "--maxKVPoolPages", "ignored", "KV caches are contiguous, there is no page pool", "N"),
    Row(LLM_BUILD, "flag", "--maxLoraRank", "refused", LORA, "N", harmless=(0,)),
    Row(LLM_BUILD, "flag", "--specBase", "refused", THINKER_SPECULATION, "", ("--eagleBase",)),
    Row(LLM_BUILD, "flag", "--specDraft", "refused", THINKER_SPECULATION, "", ("--eagleDraft",)),
    Row(LLM_BUILD, "flag", "--maxVerifyTreeSize", "ignored", THINKER_SIZES, "N"),
    Row(LLM_BUILD, "flag", "--maxDraftTreeSize", "ignored", THINKER_SIZES, "N"),
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
    Row(BUILD, "flag", "--verify", "used", "builds nothing: hashes the engines in `--engineDir` and compares"),
)
