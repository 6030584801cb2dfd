"""Write tests/checkpoint/data/omni_pretrained: a tiny Qwen3-Omni checkpoint as transformers itself saves it.

Run it in the Qwen3-Omni reference environment (transformers 5.24), from the repository root:

    python scripts/make_omni_pretrained.py

Configuration, weights (bfloat16) and tokenizer are written by ``save_pretrained``. ``expected.npz`` holds what the
PyTorch modules then give in float32 on fixed input: the Thinker, the Talker, the CodePredictor and code2wav. One layer
of the Thinker is dense, and its experts' shares are not renormalised, which the published checkpoints do not have.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Qwen2Tokenizer, Qwen3OmniMoeConfig, Qwen3OmniMoeForConditionalGeneration

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cpspec_trt.synthetic.tokenizer import write_tokenizer  # noqa: E402

TARGET = ROOT / "tests" / "checkpoint" / "data" / "omni_pretrained"
SEED = 20
GROUPS, CODEBOOK = 4, 32
BASE_VOCABULARY, TEXT_VOCABULARY = 300, 336
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MROPE = {
    "rope_type": "default",
    "rope_theta": 1_000_000.0,
    "mrope_section": [4, 2, 2],
    "interleaved": True,
    "mrope_interleaved": True,
}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 4096}


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        vocabulary = write_tokenizer(Path(scratch), BASE_VOCABULARY)
        tokenizer = Qwen2Tokenizer.from_pretrained(scratch)
    tokenizer.chat_template = TEMPLATE
    shutil.rmtree(TARGET, ignore_errors=True)
    generator = torch.Generator().manual_seed(SEED)
    model = Qwen3OmniMoeForConditionalGeneration(configuration(vocabulary)).eval()
    spread(model, generator)
    model.to(torch.bfloat16).save_pretrained(TARGET)
    tokenizer.save_pretrained(TARGET)
    saved = Qwen3OmniMoeForConditionalGeneration.from_pretrained(TARGET, dtype=torch.float32).eval()
    with torch.no_grad():
        np.savez_compressed(TARGET / "expected.npz", **expected(saved, generator))
    for file in sorted(TARGET.iterdir()):
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size} bytes")


def configuration(vocabulary: dict[str, int]) -> Qwen3OmniMoeConfig:
    media = {
        "audio_token_id": vocabulary["<|audio_pad|>"],
        "image_token_id": vocabulary["<|image_pad|>"],
        "video_token_id": vocabulary["<|video_pad|>"],
        "vision_start_token_id": vocabulary["<|vision_start|>"],
        "audio_start_token_id": vocabulary["<|audio_start|>"],
        "position_id_per_seconds": 13,
    }
    return Qwen3OmniMoeConfig(
        thinker_config=thinker(media, vocabulary["user"]),
        talker_config=talker(media),
        code2wav_config={
            "codebook_size": CODEBOOK, "num_quantizers": GROUPS, "hidden_size": 24, "intermediate_size": 32,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "sliding_window": 6,
            "upsample_rates": [4, 3], "upsampling_ratios": [2, 2], "decoder_dim": 16, "max_position_embeddings": 512,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
        },
        enable_audio_output=True,
        im_start_token_id=vocabulary["<|im_start|>"],
        im_end_token_id=vocabulary["<|im_end|>"],
        tts_pad_token_id=vocabulary["<tts_pad>"],
        tts_bos_token_id=vocabulary["<tts_text_bos>"],
        tts_eos_token_id=vocabulary["<tts_text_eod>"],
        system_token_id=vocabulary["system"],
        user_token_id=vocabulary["user"],
        assistant_token_id=vocabulary["assistant"],
    )  # fmt: skip


def thinker(media: dict[str, int], user: int) -> dict[str, Any]:
    return {
        "text_config": {
            **HEADS, "vocab_size": TEXT_VOCABULARY, "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 3,
            "moe_intermediate_size": 24, "num_experts": 5, "num_experts_per_tok": 2, "norm_topk_prob": False,
            "mlp_only_layers": [1], "rope_parameters": dict(MROPE),
        },
        "vision_config": {
            "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 1, "out_hidden_size": 48,
            "patch_size": 4, "num_position_embeddings": 4, "deepstack_visual_indexes": [0],
        },
        "audio_config": {
            "d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 1, "encoder_ffn_dim": 16, "output_dim": 48,
            "num_mel_bins": 32, "downsample_hidden_size": 4, "max_source_positions": 64,
        },
        "user_token_id": user,
        **media,
    }  # fmt: skip


def talker(media: dict[str, int]) -> dict[str, Any]:
    return {
        "text_config": {
            **HEADS, "vocab_size": CODEBOOK + 1024, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
            "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24, "num_experts": 4,
            "num_experts_per_tok": 2, "norm_topk_prob": True, "rope_parameters": dict(MROPE),
        },
        "code_predictor_config": {
            **HEADS, "vocab_size": CODEBOOK, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_code_groups": GROUPS, "max_position_embeddings": 64,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
        },
        "num_code_groups": GROUPS, "thinker_hidden_size": 48, "accept_hidden_layer": 2, "spatial_merge_size": 2,
        "codec_pad_id": CODEBOOK + 100, "codec_bos_id": CODEBOOK + 101, "codec_eos_token_id": CODEBOOK + 102,
        "codec_nothink_id": CODEBOOK + 107, "codec_think_bos_id": CODEBOOK + 108, "codec_think_eos_id": CODEBOOK + 109,
        "speaker_id": {"chelsie": CODEBOOK + 253, "ethan": CODEBOOK + 254, "aiden": CODEBOOK + 255},
        **media,
    }  # fmt: skip


def spread(model: torch.nn.Module, generator: torch.Generator) -> None:
    """Random weights under which neither attention nor routing is flat and the waveform stays within its bounds."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("norm.weight"):
                parameter.copy_(1 + 0.1 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(0.2 * noise)
            elif "embed" in name:
                parameter.copy_(noise)
            else:
                convolution = parameter.ndim == 3 and "experts" not in name
                inputs = parameter[0].numel() if convolution else parameter.shape[-1]
                parameter.copy_(noise * (0.5 if convolution else 1.5) / inputs**0.5)


def expected(model: Qwen3OmniMoeForConditionalGeneration, generator: torch.Generator) -> dict[str, np.ndarray]:
    text = torch.randint(0, BASE_VOCABULARY, (2, 20), generator=generator)
    thought = model.thinker(input_ids=text, attention_mask=torch.ones_like(text), output_hidden_states=True)
    rows = torch.randn(2, 16, model.config.talker_config.text_config.hidden_size, generator=generator)
    positions = torch.arange(rows.shape[1])
    hidden = model.talker.model(
        inputs_embeds=rows, position_ids=positions.view(1, 1, -1).expand(3, len(rows), -1)
    ).last_hidden_state
    frame = rows[:, :GROUPS]
    predicted = model.talker.code_predictor.model(inputs_embeds=frame, position_ids=positions[None, :GROUPS])
    codes = torch.randint(0, CODEBOOK, (1, GROUPS, 25), generator=generator)
    results: dict[str, Tensor] = {
        "text_ids": text,
        "thinker_logits": thought.logits,
        "accept_hidden": thought.hidden_states[model.config.talker_config.accept_hidden_layer],
        "text_rows": model.talker.text_projection(model.thinker.get_input_embeddings()(text[0])),
        "hidden_rows": model.talker.hidden_projection(thought.hidden_states[0][0]),
        "talker_rows": rows,
        "talker_hidden": hidden,
        "talker_logits": model.talker.codec_head(hidden),
        "frame_hidden": predicted.last_hidden_state,
        "codes": codes,
        "waveform": model.code2wav(codes),
    }
    return {name: value.numpy() for name, value in results.items()}


if __name__ == "__main__":
    main()
