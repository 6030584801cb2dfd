"""Write tests/text/data/omni_layout_goldens.json: the prompt rows of transformers' Qwen3-Omni Talker, as ids.

Run it in the Qwen3-Omni reference environment (transformers 5.24), from the repository root:

    python scripts/make_omni_layout_goldens.py

Embedding tables are overwritten with codes: a text row is (id + 1, 0, …), a codec row is (0, id + 1, …), and the text
projection is the identity. The inputs that ``generate`` hands to the Talker then show which ids were added up in
every row. The Thinker really runs, but a logits processor makes it write a given answer; the Talker is never run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    Qwen2Tokenizer,
    Qwen3OmniMoeConfig,
    Qwen3OmniMoeForConditionalGeneration,
)

DATA = Path(__file__).resolve().parent.parent / "tests" / "text" / "data"
TEMPLATE = "plain.jinja"
WIDTH = 16
CODEC = {
    "codec_pad_id": 164,
    "codec_bos_id": 165,
    "codec_eos_token_id": 166,
    "codec_nothink_id": 171,
    "codec_think_bos_id": 172,
    "codec_think_eos_id": 173,
    "speaker_id": {"chelsie": 301, "ethan": 302, "aiden": 303},
}
HELLO = [{"role": "user", "content": "Hello there."}]
SYSTEM = {"role": "system", "content": "Answer in one sentence."}
TURNS = [
    SYSTEM,
    {"role": "user", "content": "How far is the moon?"},
    {"role": "assistant", "content": "Far away."},
    {"role": "user", "content": "And the\n\nsun?"},
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Please."},
]
ANSWER = "The sun is much farther away."
EOS = "<|im_end|>"

CASES: list[dict[str, Any]] = [
    {"messages": HELLO, "answer": ANSWER, "end": EOS, "speaker": "chelsie"},
    {"messages": HELLO, "answer": ANSWER, "end": EOS, "speaker": "ethan"},
    {"messages": HELLO, "answer": ANSWER, "end": EOS, "speaker": "aiden"},
    {"messages": [SYSTEM, *HELLO], "answer": ANSWER, "end": EOS, "speaker": "Ethan"},
    {"messages": TURNS, "answer": ANSWER, "end": EOS, "speaker": "ethan"},
    {"messages": TURNS, "answer": ANSWER, "end": "", "speaker": "ethan"},
    {"messages": HELLO, "answer": "Yes", "end": EOS, "speaker": "ethan"},
    {"messages": HELLO, "answer": "Yes", "end": "", "speaker": "ethan"},
    {"messages": HELLO, "answer": "x", "end": EOS, "speaker": "ethan"},
    {"messages": HELLO, "answer": "x", "end": "", "speaker": "ethan"},
    {"messages": HELLO, "answer": "", "end": EOS, "speaker": "ethan"},
    {"messages": HELLO, "answer": ANSWER, "end": EOS, "speaker": "ethan", "opened": "<think>\n\n</think>\n\n"},
]


class Captured(Exception):
    """Carries the Talker's inputs out of ``generate``."""


class Scripted(LogitsProcessor):
    """Makes the Thinker write the given ids."""

    def __init__(self, prompt: int, ids: list[int]) -> None:
        self._prompt, self._ids = prompt, ids

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        only = torch.full_like(scores, -float("inf"))
        only[:, self._ids[input_ids.shape[1] - self._prompt]] = 0.0
        return only


def main() -> None:
    tokenizer = Qwen2Tokenizer.from_pretrained(DATA / "published")
    tokenizer.chat_template = (DATA / "chat" / TEMPLATE).read_text(encoding="utf-8")
    model = coded_model(tokenizer)
    config = model.config
    ids = {name: getattr(config, name) for name in vars(config) if name.endswith("_token_id")}
    head = {"token_ids": {key: value for key, value in ids.items() if value is not None}, "codec": CODEC}
    cases = [run(model, tokenizer, case) for case in CASES]
    rows = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    body = f'{{\n"template": "{TEMPLATE}",\n"config": {json.dumps(head)},\n"cases": [\n{rows}\n]\n}}\n'
    (DATA / "omni_layout_goldens.json").write_text(body, encoding="utf-8")
    print(f"{len(cases)} cases, {sum('crash' in case for case in cases)} of them crash the reference")


def run(model: Qwen3OmniMoeForConditionalGeneration, tokenizer: Qwen2Tokenizer, case: dict[str, Any]) -> dict[str, Any]:
    """One request: its prompt, what the Thinker wrote, and the Talker's rows (or that the reference crashes)."""
    text = tokenizer.apply_chat_template(case["messages"], add_generation_prompt=True, tokenize=False)
    prompt = tokenizer(text + case.get("opened", ""), return_tensors="pt").input_ids
    written = tokenizer(case["answer"] + case["end"]).input_ids
    scripted = Scripted(prompt.shape[1], written)
    found = {**case, "prompt_ids": prompt[0].tolist(), "generated_ids": written, "stopped": bool(case["end"])}
    try:
        model.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            speaker=case["speaker"],
            thinker_max_new_tokens=len(written),
            thinker_eos_token_id=model.config.im_end_token_id,
            thinker_do_sample=False,
            thinker_logits_processor=LogitsProcessorList([scripted]),
        )
    except Captured as captured:
        return found | rows_of(captured.args[0])
    except RuntimeError as fault:
        return found | {"crash": type(fault).__name__}
    raise AssertionError("the Talker was not called")


def rows_of(inputs: dict[str, Any]) -> dict[str, list[int]]:
    rows, trailing = inputs["inputs_embeds"][0], inputs["trailing_text_hidden"][0]
    assert bool(inputs["attention_mask"].all())
    assert not bool(rows[:, 2:].any())
    assert not bool(trailing[:, 1:].any())
    text, codec = (rows[:, channel].to(torch.int64) - 1 for channel in (0, 1))
    return {
        "text_ids": text.tolist(),
        "codec_ids": codec.tolist(),
        "trailing": (trailing[:, 0].to(torch.int64) - 1).tolist(),
    }


def coded_model(tokenizer: Qwen2Tokenizer) -> Qwen3OmniMoeForConditionalGeneration:
    """A minimal model whose embeddings reveal their ids."""
    of = tokenizer.convert_tokens_to_ids
    media = {
        "audio_token_id": of("<|audio_pad|>"),
        "image_token_id": 2300,
        "video_token_id": 2301,
        "vision_start_token_id": 2302,
        "audio_start_token_id": of("<|audio_start|>"),
        "position_id_per_seconds": 13,
    }
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    experts = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
    decoder = {"hidden_size": WIDTH, "intermediate_size": 16, "rope_parameters": rope, **heads, **experts}
    small = {"num_heads": 2, "depth": 1, "hidden_size": 16, "intermediate_size": 16, "out_hidden_size": WIDTH}
    thinker = {
        "text_config": {"vocab_size": 2304, **decoder},
        "vision_config": {**small, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]},
        "audio_config": {
            "d_model": 16,
            "encoder_layers": 1,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 16,
            "output_dim": WIDTH,
            "num_mel_bins": 128,
            "downsample_hidden_size": 8,
        },
        **media,
    }
    talker = {
        "text_config": {"vocab_size": 1088, "shared_expert_intermediate_size": 16, **decoder},
        "code_predictor_config": {
            "vocab_size": 64,
            "hidden_size": WIDTH,
            "intermediate_size": 16,
            "num_code_groups": 16,
            **heads,
        },
        "num_code_groups": 16,
        "thinker_hidden_size": WIDTH,
        "accept_hidden_layer": 1,
        "spatial_merge_size": 2,
        **CODEC,
        **media,
    }
    code2wav = {
        "codebook_size": 64,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "num_quantizers": 16,
        "decoder_dim": 16,
        "upsample_rates": [2, 2],
        "upsampling_ratios": [2, 2],
    }
    config = Qwen3OmniMoeConfig(
        thinker_config=thinker,
        talker_config=talker,
        code2wav_config=code2wav,
        enable_audio_output=True,
        im_start_token_id=of("<|im_start|>"),
        im_end_token_id=of("<|im_end|>"),
        tts_pad_token_id=of("<tts_pad>"),
        tts_bos_token_id=of("<tts_text_bos>"),
        tts_eos_token_id=of("<tts_text_eod>"),
        system_token_id=of("system"),
        user_token_id=of("user"),
        assistant_token_id=of("assistant"),
    )
    model = Qwen3OmniMoeForConditionalGeneration(config).eval()
    model.talker.text_projection = torch.nn.Identity()
    write_codes(model.thinker.get_input_embeddings().weight, channel=0)
    write_codes(model.talker.get_input_embeddings().weight, channel=1)

    def capture(**inputs: Any) -> None:
        raise Captured(inputs)

    model.talker.generate = capture
    return model


def write_codes(table: torch.Tensor, channel: int) -> None:
    with torch.no_grad():
        table.zero_()
        table[:, channel] = torch.arange(1, table.shape[0] + 1, dtype=table.dtype)


if __name__ == "__main__":
    main()
