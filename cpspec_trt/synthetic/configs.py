"""The JSON files of a published Qwen3-TTS checkpoint, field for field, filled from a spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cpspec_trt.files.engine_config import DecoderDimensions
from cpspec_trt.synthetic.codec_vocabulary import TTS_TAGS, shifted
from cpspec_trt.synthetic.spec import TtsSpec
from cpspec_trt.synthetic.speech_layout import ENCODER_STRIDES, samples_per_frame

SAMPLE_RATE = 24_000

# Offsets behind the codebook.
_LANGUAGES = {
    "chinese": 7,
    "english": 2,
    "german": 5,
    "italian": 22,
    "portuguese": 23,
    "spanish": 6,
    "japanese": 10,
    "korean": 16,
    "french": 13,
    "russian": 21,
}
_DIALECTS = {"beijing_dialect": 26, "sichuan_dialect": 14}
_SPEAKERS = {
    "serena": 1018,
    "vivian": 1017,
    "uncle_fu": 962,
    "ryan": 1013,
    "aiden": 813,
    "ono_anna": 825,
    "sohee": 816,
    "eric": 827,
    "dylan": 830,
}
_SPEAKS_DIALECT = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}


def model_config(spec: TtsSpec, vocabulary: Mapping[str, int]) -> dict[str, Any]:
    """``config.json``; ``vocabulary`` maps every text token, added ones included, to its id."""
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": vocabulary["assistant"],
        "im_end_token_id": vocabulary["<|im_end|>"],
        "im_start_token_id": vocabulary["<|im_start|>"],
        "model_type": "qwen3_tts",
        "talker_config": _talker_config(spec),
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_bos_token_id": vocabulary["<tts_text_bos>"],
        "tts_eos_token_id": vocabulary["<tts_text_eod>"],
        "tts_model_size": spec.model_size,
        "tts_model_type": spec.kind,
        "tts_pad_token_id": vocabulary["<tts_pad>"],
    }


def generation_config() -> dict[str, Any]:
    """``generation_config.json``."""
    return {
        "do_sample": True,
        "repetition_penalty": 1.05,
        "temperature": 0.9,
        "top_p": 1.0,
        "top_k": 50,
        "subtalker_dosample": True,
        "subtalker_temperature": 0.9,
        "subtalker_top_p": 1.0,
        "subtalker_top_k": 50,
        "max_new_tokens": 8192,
    }


def processor_config() -> dict[str, Any]:
    """``preprocessor_config.json`` of the text processor."""
    return {
        "padding_side": "left",
        "padding_value": 0.0,
        "processor_class": "Qwen3TTSProcessor",
        "return_attention_mask": True,
    }


def feature_extractor_config() -> dict[str, Any]:
    """``speech_tokenizer/preprocessor_config.json``."""
    return {
        "chunk_length_s": None,
        "feature_extractor_type": "EncodecFeatureExtractor",
        "feature_size": 1,
        "overlap": None,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": True,
        "sampling_rate": SAMPLE_RATE,
    }


def speech_config(spec: TtsSpec) -> dict[str, Any]:
    """``speech_tokenizer/config.json``."""
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "decode_upsample_rate": samples_per_frame(spec.decoder),
        "decoder_config": _speech_decoder_config(spec),
        "encode_downsample_rate": 1920,
        "encoder_config": _speech_encoder_config(spec),
        "encoder_valid_num_quantizers": spec.num_code_groups,
        "input_sample_rate": SAMPLE_RATE,
        "model_type": "qwen3_tts_tokenizer_12hz",
        "output_sample_rate": SAMPLE_RATE,
    }


def _talker_config(spec: TtsSpec) -> dict[str, Any]:
    custom = spec.kind == "custom_voice"
    speakers = _SPEAKERS if custom else {}
    return {
        "attention_bias": False,
        "attention_dropout": 0,
        "code_predictor_config": {
            "attention_bias": False,
            "attention_dropout": 0,
            **_decoder_fields(spec.code_predictor),
            "layer_types": ["full_attention"] * spec.code_predictor.num_hidden_layers,
            "max_window_layers": 28,
            "model_type": "qwen3_tts_talker_code_predictor",
            "num_code_groups": spec.num_code_groups,
            "rope_scaling": None,
        },
        **shifted(TTS_TAGS, spec.codebook_size),
        "codec_language_id": shifted(_LANGUAGES | (_DIALECTS if custom else {}), spec.codebook_size),
        **_decoder_fields(spec.talker),
        "model_type": "qwen3_tts_talker",
        "num_code_groups": spec.num_code_groups,
        "position_id_per_seconds": 13,
        "rope_scaling": {
            "interleaved": True,
            "mrope_section": list(spec.mrope_section),
            "rope_type": "default",
            "type": "default",
        },
        "spk_id": shifted(speakers, spec.codebook_size),
        "spk_is_dialect": {name: _SPEAKS_DIALECT.get(name, False) for name in speakers},
        "text_hidden_size": spec.text_hidden_size,
        "text_vocab_size": spec.text_vocab_size,
    }


def _decoder_fields(stack: DecoderDimensions) -> dict[str, Any]:
    fields = asdict(stack)
    fields["rope_theta"] = int(stack.rope_theta)  # published as an integer
    return fields | {
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "sliding_window": None,
        "use_cache": True,
        "use_sliding_window": False,
    }


def _speech_decoder_config(spec: TtsSpec) -> dict[str, Any]:
    fields = asdict(spec.decoder)
    fields["upsample_rates"] = list(spec.decoder.upsample_rates)
    fields["upsampling_ratios"] = list(spec.decoder.upsampling_ratios)
    return fields | {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "codebook_size": spec.codebook_size,
        "hidden_act": "silu",
        "layer_scale_initial_scale": 0.01,
        "num_quantizers": spec.num_code_groups,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000,
        "semantic_codebook_size": 2 * spec.codebook_size,
        "vector_quantization_hidden_dimension": spec.decoder.codebook_dim,
    }


def _speech_encoder_config(spec: TtsSpec) -> dict[str, Any]:
    shape = spec.encoder
    return {
        "_frame_rate": 12.5,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "audio_channels": 1,
        "codebook_dim": shape.codebook_dim,
        "codebook_size": spec.codebook_size,
        "compress": 2,
        "dilation_growth_rate": 2,
        "head_dim": shape.head_dim,
        "hidden_act": "gelu",
        "hidden_size": shape.hidden_size,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate_size,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "model_type": "mimi",
        "norm_eps": 1e-05,
        "num_attention_heads": shape.num_attention_heads,
        "num_filters": shape.num_filters,
        "num_hidden_layers": shape.num_hidden_layers,
        "num_key_value_heads": shape.num_attention_heads,
        "num_quantizers": shape.num_quantizers,
        "num_residual_layers": 1,
        "num_semantic_quantizers": 1,
        "pad_mode": "constant",
        "residual_kernel_size": 3,
        "rope_theta": 10000.0,
        "sampling_rate": SAMPLE_RATE,
        "sliding_window": 250,
        "trim_right_ratio": 1.0,
        "upsample_groups": shape.hidden_size,
        "upsampling_ratios": list(reversed(ENCODER_STRIDES)),
        "use_cache": False,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "use_streaming": False,
        "vector_quantization_hidden_dimension": shape.codebook_dim,
    }
