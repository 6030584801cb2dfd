"""Configurations of the two models of the checkpoint."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from . import layout
from .reference import Qwen3TTSConfig, Qwen3TTSTokenizerV2Config


def tts_config(tokenizer: PreTrainedTokenizerBase) -> Qwen3TTSConfig:
    """Talker (4 layers) and CodePredictor (2 layers, narrower than the Talker, hence with its projection)."""
    token = tokenizer.convert_tokens_to_ids
    predictor = {
        "vocab_size": layout.CODEBOOK,
        "hidden_size": layout.PREDICTOR_HIDDEN,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "num_code_groups": layout.GROUPS,
        "rope_theta": 10000,
        "max_position_embeddings": 64,
    }
    talker = {
        "vocab_size": layout.TALKER_VOCABULARY,
        "hidden_size": layout.TALKER_HIDDEN,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "rope_theta": 10000,
        "rope_scaling": {
            "rope_type": "default",
            "type": "default",
            "interleaved": True,
            "mrope_section": [12, 10, 10],
        },
        "num_code_groups": layout.GROUPS,
        "text_hidden_size": layout.TEXT_HIDDEN,
        "text_vocab_size": -(-len(tokenizer) // 16) * 16,
        "max_position_embeddings": 2048,
        "codec_pad_id": layout.CODEC_PAD,
        "codec_bos_id": layout.CODEC_BOS,
        "codec_eos_token_id": layout.CODEC_EOS,
        "codec_think_id": layout.THINK,
        "codec_nothink_id": layout.NO_THINK,
        "codec_think_bos_id": layout.THINK_BOS,
        "codec_think_eos_id": layout.THINK_EOS,
        "codec_language_id": dict(layout.LANGUAGES),
        "spk_id": dict(layout.SPEAKERS),
        "spk_is_dialect": dict.fromkeys(layout.SPEAKERS, False),
        "code_predictor_config": predictor,
    }
    # CustomVoice has no speaker encoder weights, but the layout keeps the section.
    speaker_encoder = {
        "mel_dim": 128,
        "enc_dim": 64,
        "enc_channels": [16] * 4 + [48],
        "enc_attention_channels": 8,
        "enc_res2net_scale": 4,
        "enc_se_channels": 8,
    }
    return Qwen3TTSConfig(
        talker_config=talker,
        speaker_encoder_config=speaker_encoder,
        tokenizer_type="qwen3_tts_tokenizer_12hz",
        tts_model_size="0b6",
        tts_model_type="custom_voice",
        im_start_token_id=token(layout.IM_START),
        im_end_token_id=token(layout.IM_END),
        tts_pad_token_id=token(layout.TTS_PAD),
        tts_bos_token_id=token(layout.TTS_BOS),
        tts_eos_token_id=token(layout.TTS_EOS),
        assistant_token_id=token("assistant"),
    )


def codec_config() -> Qwen3TTSTokenizerV2Config:
    """12 Hz decoder (1920 samples per frame at 24 kHz) and the smallest encoder that satisfies the layout."""
    encoder = {
        "num_filters": 4,
        "upsampling_ratios": [8, 6, 5, 4],
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 32,
        "codebook_size": layout.CODEBOOK,
        "codebook_dim": 8,
        "vector_quantization_hidden_dimension": 8,
        "num_quantizers": layout.GROUPS,
        "num_semantic_quantizers": 1,
        "sampling_rate": 24000,
        "frame_rate": 12.5,
        "upsample_groups": 32,
    }
    decoder = {
        "codebook_size": layout.CODEBOOK,
        "codebook_dim": 2 * layout.CODE_DIM,
        "latent_dim": 128,
        "hidden_size": 128,
        "head_dim": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_quantizers": layout.GROUPS,
        "sliding_window": 24,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "decoder_dim": 192,
        "max_position_embeddings": 2048,
        "layer_scale_initial_scale": 0.1,
    }
    return Qwen3TTSTokenizerV2Config(
        encoder_config=encoder,
        decoder_config=decoder,
        encoder_valid_num_quantizers=layout.GROUPS,
        decode_upsample_rate=1920,
        encode_downsample_rate=1920,
    )
