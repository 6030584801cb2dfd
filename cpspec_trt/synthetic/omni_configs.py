"""The JSON files of a Qwen3-Omni checkpoint, field for field, filled from a spec.

Left out are the generic fields that transformers writes into every config (labels, beam search, …).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cpspec_trt.files.engine_config import DecoderDimensions, MoeDimensions
from cpspec_trt.synthetic.codec_vocabulary import OMNI_TAGS, shifted
from cpspec_trt.synthetic.omni_spec import OmniSpec, Style

_SPEAKERS = {"chelsie": 253, "ethan": 254, "aiden": 255}  # offsets behind the codebook
_DTYPE_NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_SECONDS_PER_CHUNK = 2
_POSITIONS_PER_SECOND = 13
_MERGE_SIZE = 2  # image patches per side that become one Thinker row


def omni_config(spec: OmniSpec, vocabulary: Mapping[str, int]) -> dict[str, Any]:
    """``config.json``; ``vocabulary`` maps every text token, added ones included, to its id."""
    return {
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "assistant_token_id": vocabulary["assistant"],
        "code2wav_config": _code2wav_config(spec),
        "dtype": _DTYPE_NAMES[spec.dtype],
        "enable_audio_output": True,
        "im_end_token_id": vocabulary["<|im_end|>"],
        "im_start_token_id": vocabulary["<|im_start|>"],
        "model_type": "qwen3_omni_moe",
        "system_token_id": vocabulary["system"],
        "talker_config": _talker_config(spec, vocabulary),
        "thinker_config": _thinker_config(spec, vocabulary),
        "transformers_version": "4.57.0.dev0" if spec.style == "published" else "5.24.0",
        "tts_bos_token_id": vocabulary["<tts_text_bos>"],
        "tts_eos_token_id": vocabulary["<tts_text_eod>"],
        "tts_pad_token_id": vocabulary["<tts_pad>"],
        "user_token_id": vocabulary["user"],
    }


def omni_generation_config() -> dict[str, Any]:
    """``generation_config.json``: the Talker's values; the Thinker has none."""
    return {
        "talker_max_new_tokens": 4096,
        "talker_repetition_penalty": 1.05,
        "talker_temperature": 0.9,
        "talker_top_k": 50,
        "talker_top_p": 1.0,
    }


def omni_processor_config(spec: OmniSpec) -> dict[str, Any]:
    """``preprocessor_config.json`` of images and sound."""
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": spec.audio.num_mel_bins,
        "hop_length": 160,
        "image_mean": [0.5, 0.5, 0.5],
        "image_processor_type": "Qwen2VLImageProcessor",
        "image_std": [0.5, 0.5, 0.5],
        "merge_size": _MERGE_SIZE,
        "n_fft": 400,
        "padding_value": 0.0,
        "patch_size": spec.vision.patch_size,
        "processor_class": "Qwen3OmniMoeProcessor",
        "return_attention_mask": True,
        "sampling_rate": 16000,
        "temporal_patch_size": 2,
    }


def _thinker_config(spec: OmniSpec, vocabulary: Mapping[str, int]) -> dict[str, Any]:
    return {
        "audio_config": asdict(spec.audio)
        | {
            "activation_function": "gelu",
            "conv_chunksize": 500,
            "max_source_positions": 1500,
            "model_type": "qwen3_omni_moe_audio_encoder",
            "n_window": 50,
            "n_window_infer": 800,
            "output_dim": spec.thinker.hidden_size,
            "scale_embedding": False,
        },
        **_media_ids(vocabulary),
        "dtype": _DTYPE_NAMES[spec.dtype],
        "initializer_range": 0.02,
        "model_type": "qwen3_omni_moe_thinker",
        "position_id_per_seconds": _POSITIONS_PER_SECOND,
        "seconds_per_chunk": _SECONDS_PER_CHUNK,
        "text_config": {
            **_decoder_fields(spec.thinker, spec.style, _mrope(spec) | {"mrope_interleaved": True}),
            **_moe_fields(spec.thinker_moe),
            "model_type": "qwen3_omni_moe_text",
            "use_qk_norm": True,
        },
        "user_token_id": vocabulary["user"],
        "vision_config": asdict(spec.vision)
        | {
            "deepstack_visual_indexes": list(spec.vision.deepstack_visual_indexes),
            "hidden_act": "gelu_pytorch_tanh",
            "in_channels": 3,
            "initializer_range": 0.02,
            "model_type": "qwen3_omni_moe_vision_encoder",
            "out_hidden_size": spec.thinker.hidden_size,
            "spatial_merge_size": _MERGE_SIZE,
            "temporal_patch_size": 2,
        },
        "vision_end_token_id": vocabulary["<|vision_end|>"],
        "vision_start_token_id": vocabulary["<|vision_start|>"],
    }


def _talker_config(spec: OmniSpec, vocabulary: Mapping[str, int]) -> dict[str, Any]:
    text = {
        **_decoder_fields(spec.talker, spec.style, _mrope(spec)),
        **_moe_fields(spec.talker_moe),
    }
    if spec.style == "transformers_5":  # the name of the field there, in this section only
        text["num_local_experts"] = text.pop("num_experts")
        text["model_type"] = "qwen3_omni_moe_talker_text"
    return {
        "accept_hidden_layer": spec.accept_hidden_layer,
        **_media_ids(vocabulary),
        "code_predictor_config": {
            **_decoder_fields(spec.code_predictor, spec.style, None),
            "layer_types": ["full_attention"] * spec.code_predictor.num_hidden_layers,
            "max_window_layers": 28,
            "model_type": "qwen3_omni_moe_talker_code_predictor",
            "num_code_groups": spec.num_code_groups,
        },
        **shifted(OMNI_TAGS, spec.codebook_size),
        "model_type": "qwen3_omni_moe_talker" if spec.style == "published" else "",
        "num_code_groups": spec.num_code_groups,
        "output_router_logits": False,
        "position_id_per_seconds": _POSITIONS_PER_SECOND,
        "seconds_per_chunk": _SECONDS_PER_CHUNK,
        "spatial_merge_size": _MERGE_SIZE,
        "speaker_id": shifted(_SPEAKERS, spec.codebook_size),
        "text_config": text,
        "thinker_hidden_size": spec.thinker.hidden_size,
        "vision_start_token_id": vocabulary["<|vision_start|>"],
    }


def _code2wav_config(spec: OmniSpec) -> dict[str, Any]:
    return asdict(spec.code2wav) | {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "codebook_size": spec.codebook_size,
        "hidden_act": "silu",
        "layer_scale_initial_scale": 0.01,
        "model_type": "",
        "num_quantizers": spec.num_code_groups,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-05,
        "semantic_codebook_size": 2 * spec.codebook_size,
        "upsample_rates": list(spec.code2wav.upsample_rates),
        "upsampling_ratios": list(spec.code2wav.upsampling_ratios),
        **({"rope_theta": 10000} if spec.style == "published" else _rope_parameters(10000, {})),
    }


def _media_ids(vocabulary: Mapping[str, int]) -> dict[str, int]:
    return {
        "audio_end_token_id": vocabulary["<|audio_end|>"],
        "audio_start_token_id": vocabulary["<|audio_start|>"],
        "audio_token_id": vocabulary["<|audio_pad|>"],
        "image_token_id": vocabulary["<|image_pad|>"],
        "video_token_id": vocabulary["<|video_pad|>"],
    }


def _decoder_fields(stack: DecoderDimensions, style: Style, mrope: dict[str, Any] | None) -> dict[str, Any]:
    fields = asdict(stack)
    theta = int(fields.pop("rope_theta"))  # published as an integer
    if style == "published":
        scaling = mrope and {**mrope, "rope_type": "default", "type": "default"}
        fields |= {"rope_scaling": scaling, "rope_theta": theta}
    else:
        fields |= _rope_parameters(theta, mrope or {})
    return fields | {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": False,
    }


def _rope_parameters(theta: int, mrope: dict[str, Any]) -> dict[str, Any]:
    return {"rope_parameters": {**mrope, "rope_theta": theta, "rope_type": "default"}}


def _mrope(spec: OmniSpec) -> dict[str, Any]:
    return {"interleaved": True, "mrope_section": list(spec.mrope_section)}


def _moe_fields(moe: MoeDimensions) -> dict[str, Any]:
    fields = asdict(moe)
    return fields | {
        "decoder_sparse_step": 1,
        "mlp_only_layers": list(fields.pop("dense_layers")),
        "output_router_logits": False,
        "router_aux_loss_coef": 0.001,
    }
