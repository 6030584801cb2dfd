"""Write tests/text/data/layout_goldens.json: the prompt rows that the qwen-tts wrapper builds, as ids.

Run it in the reference environment (qwen-tts 0.1.1, transformers 4.57.3), from the repository root:

    python scripts/make_layout_goldens.py

The model's two embedding tables are overwritten with codes: a text row is (id + 1, 0, …), a codec row is
(0, id + 1, …), and the text projection is the identity. The inputs that the wrapper hands to the Talker then show
which ids were added up in every row. The Talker itself is never run.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from reference.pytorch_reference import Qwen3TTSModel  # first: it stands in for torchaudio, which qwen_tts imports

# isort: split
from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration, Qwen3TTSProcessor

DATA = Path(__file__).resolve().parent.parent / "tests" / "text" / "data"
WIDTH = 16
CODEC = {
    "codec_pad_id": 164,
    "codec_bos_id": 165,
    "codec_eos_token_id": 166,
    "codec_think_id": 170,
    "codec_nothink_id": 171,
    "codec_think_bos_id": 172,
    "codec_think_eos_id": 173,
    "codec_language_id": {"english": 200, "chinese": 201, "russian": 203, "sichuan_dialect": 202},
    "spk_id": {"ryan": 300, "eric": 301},
    "spk_is_dialect": {"ryan": False, "eric": "sichuan_dialect"},
}
HELLO = "Hello world, how are you today?"

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("custom_voice", "1b7", {"text": HELLO, "speaker": "ryan", "language": "english"}),
    ("custom_voice", "1b7", {"text": HELLO, "speaker": "Ryan", "language": "Auto"}),
    ("custom_voice", "1b7", {"text": HELLO, "speaker": "RYAN"}),
    ("custom_voice", "1b7", {"text": "今天天气很好。", "speaker": "ryan", "language": "Chinese"}),
    ("custom_voice", "1b7", {"text": "今天天气很好。", "speaker": "eric", "language": "Chinese"}),
    ("custom_voice", "1b7", {"text": "今天天气很好。", "speaker": "Eric", "language": "auto"}),
    ("custom_voice", "1b7", {"text": HELLO, "speaker": "eric", "language": "English"}),
    (
        "custom_voice",
        "1b7",
        {"text": "Пожалуйста, закройте окно.", "speaker": "ryan", "language": "Russian", "instruct": "Медленно."},
    ),
    ("custom_voice", "1b7", {"text": HELLO, "speaker": "ryan", "language": "english", "instruct": "Whisper,\nslowly."}),
    ("custom_voice", "0b6", {"text": HELLO, "speaker": "ryan", "language": "english", "instruct": "Whisper."}),
    ("custom_voice", "1b7", {"text": "a", "speaker": "ryan", "language": "english"}),
    ("custom_voice", "1b7", {"text": "  two spaces, trailing newline\n", "speaker": "ryan", "language": "auto"}),
    ("custom_voice", "1b7", {"text": "\n\nnewlines first", "speaker": "ryan", "language": "auto"}),
    ("custom_voice", "1b7", {"text": "say <|im_end|> and <|im_start|>user\nno", "speaker": "ryan", "language": "auto"}),
    ("custom_voice", "1b7", {"text": "e\u0301te\u0301 à la mer", "speaker": "eric", "language": "english"}),
    ("voice_design", "1b7", {"text": HELLO, "language": "English", "instruct": "A calm, deep voice."}),
    ("voice_design", "1b7", {"text": "今天天气很好。", "language": "Auto", "instruct": "明亮的声音"}),
    ("voice_design", "1b7", {"text": HELLO, "language": "English", "instruct": ""}),
]


class Captured(Exception):
    """Carries the Talker's inputs out of the wrapper."""


def main() -> None:
    tokens = json.loads((DATA / "published" / "tokenizer_config.json").read_text(encoding="utf-8"))
    ids = {token["content"]: int(i) for i, token in tokens["added_tokens_decoder"].items()}
    cases = []
    for kind, size, request in CASES:
        wrapper = coded_model(kind, size, ids)
        for non_streaming in (True, False):
            rows = prompt_rows(wrapper, kind, {**request, "non_streaming_mode": non_streaming})
            cases.append({"model_type": kind, "model_size": size, **request, "non_streaming": non_streaming, **rows})
    config = wrapper.model.config
    text_ids = {name: getattr(config, name) for name in vars(config) if name.endswith("_token_id")}
    head = {"text_token_ids": {key: value for key, value in text_ids.items() if value is not None}, "codec": CODEC}
    rows = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    body = f'{{\n"config": {json.dumps(head)},\n"cases": [\n{rows}\n]\n}}\n'
    (DATA / "layout_goldens.json").write_text(body, encoding="utf-8")
    print(f"{len(cases)} cases")


def coded_model(kind: str, size: str, ids: dict[str, int]) -> Qwen3TTSModel:
    """A wrapper around a minimal model whose embeddings reveal their ids."""
    processor = load_processor(kind)
    custom = CODEC if kind == "custom_voice" else {**CODEC, "spk_id": {}, "spk_is_dialect": {}}
    tiny = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 16}
    talker = {
        "vocab_size": 1088,
        "hidden_size": WIDTH,
        "intermediate_size": 16,
        "text_hidden_size": WIDTH,
        "text_vocab_size": 4096,
        "num_code_groups": 16,
        "rope_scaling": {"rope_type": "default", "type": "default", "interleaved": True, "mrope_section": [4, 2, 2]},
        "code_predictor_config": {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 16, **tiny},
        **tiny,
        **custom,
    }
    config = Qwen3TTSConfig(
        talker_config=talker,
        tokenizer_type="qwen3_tts_tokenizer_12hz",
        tts_model_size=size,
        tts_model_type=kind,
        im_start_token_id=ids["<|im_start|>"],
        im_end_token_id=ids["<|im_end|>"],
        tts_pad_token_id=ids["<tts_pad>"],
        tts_bos_token_id=ids["<tts_text_bos>"],
        tts_eos_token_id=ids["<tts_text_eod>"],
        assistant_token_id=processor.tokenizer.convert_tokens_to_ids("assistant"),
    )
    model = Qwen3TTSForConditionalGeneration(config).eval()
    model.talker.text_projection = torch.nn.Identity()
    write_codes(model.talker.get_text_embeddings().weight, channel=0)
    write_codes(model.talker.get_input_embeddings().weight, channel=1)

    def capture(**inputs: Any) -> None:
        raise Captured(inputs)

    model.talker.generate = capture
    return Qwen3TTSModel(model, processor, {})


def load_processor(kind: str) -> Qwen3TTSProcessor:
    """The processor as ``Qwen3TTSModel.from_pretrained`` loads it."""
    transformers.AutoConfig.register("qwen3_tts", Qwen3TTSConfig, exist_ok=True)
    transformers.AutoProcessor.register(Qwen3TTSConfig, Qwen3TTSProcessor, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / kind
        shutil.copytree(DATA / "published", directory)
        (directory / "config.json").write_text(json.dumps({"model_type": "qwen3_tts"}), encoding="utf-8")
        return transformers.AutoProcessor.from_pretrained(directory, fix_mistral_regex=True)


def write_codes(table: torch.Tensor, channel: int) -> None:
    with torch.no_grad():
        table.zero_()
        table[:, channel] = torch.arange(1, table.shape[0] + 1, dtype=table.dtype)


def prompt_rows(wrapper: Qwen3TTSModel, kind: str, request: dict[str, Any]) -> dict[str, list[int]]:
    speak = wrapper.generate_custom_voice if kind == "custom_voice" else wrapper.generate_voice_design
    try:
        speak(**request)
    except Captured as captured:
        inputs = captured.args[0]
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


if __name__ == "__main__":
    main()
