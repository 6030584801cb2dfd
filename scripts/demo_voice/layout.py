"""Sizes and ids of the demo checkpoint: the published Qwen3-TTS 12 Hz CustomVoice layout, made small."""

from __future__ import annotations

CODEBOOK = 256  # codes per RVQ depth
GROUPS = 16  # RVQ depths per frame
CODE_DIM = 64  # width of a codebook vector

TALKER_HIDDEN, TEXT_HIDDEN, PREDICTOR_HIDDEN = 256, 128, 192

# The Talker's vocabulary: CODEBOOK codes, then 1024 control ids, at the published offsets from the first of them.
CONTROL = CODEBOOK
TALKER_VOCABULARY = CODEBOOK + 1024
CODEC_PAD, CODEC_BOS, CODEC_EOS = CONTROL + 100, CONTROL + 101, CONTROL + 102
THINK, NO_THINK, THINK_BOS, THINK_EOS = CONTROL + 106, CONTROL + 107, CONTROL + 108, CONTROL + 109
LANGUAGES = {"english": CONTROL + 2}
SPEAKERS = {"vivian": CONTROL + 813, "ryan": CONTROL + 814}

IM_START, IM_END, END_OF_TEXT = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
TTS_PAD, TTS_BOS, TTS_EOS = "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>"
SPECIAL_TOKENS = [
    END_OF_TEXT,
    IM_START,
    IM_END,
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    TTS_PAD,
    TTS_BOS,
    TTS_EOS,
]
