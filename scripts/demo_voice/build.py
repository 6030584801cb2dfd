"""Step 5: assemble the checkpoint in the published Qwen3-TTS 12 Hz CustomVoice layout from the trained weights."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from transformers import EncodecFeatureExtractor

from .configs import codec_config, tts_config
from .reference import Qwen3TTSForConditionalGeneration, Qwen3TTSTokenizerV2Model
from .text_tokenizer import build_tokenizer
from .train_codec import DECODER
from .train_tts import TALKER
from .vocoder import SAMPLE_RATE

# qwen-tts cannot read back the other fields that save_pretrained writes into this section.
SPEAKER_ENCODER_FIELDS = (
    "mel_dim",
    "enc_dim",
    "enc_channels",
    "enc_kernel_sizes",
    "enc_dilations",
    "enc_attention_channels",
    "enc_res2net_scale",
    "enc_se_channels",
    "sample_rate",
)
GENERATION = {
    "do_sample": True,
    "top_k": 50,
    "top_p": 1.0,
    "temperature": 0.9,
    "repetition_penalty": 1.05,
    "subtalker_dosample": True,
    "subtalker_top_k": 50,
    "subtalker_top_p": 1.0,
    "subtalker_temperature": 0.9,
    "max_new_tokens": 256,
}


def build(work: Path, target: Path, dtype: torch.dtype) -> None:
    """Write the checkpoint with weights of `dtype` under `target`."""
    tokenizer = build_tokenizer(target)
    model = Qwen3TTSForConditionalGeneration(tts_config(tokenizer)).eval()
    model.load_state_dict(torch.load(work / TALKER))
    model.to(dtype).save_pretrained(target)

    config_path = target / "config.json"
    config = json.loads(config_path.read_text())
    speaker_encoder = config["speaker_encoder_config"]
    config["speaker_encoder_config"] = {
        field: value for field, value in speaker_encoder.items() if field in SPEAKER_ENCODER_FIELDS
    }
    config_path.write_text(json.dumps(config, indent=1))
    (target / "generation_config.json").write_text(json.dumps(GENERATION))

    codec = Qwen3TTSTokenizerV2Model(codec_config()).eval()
    codec.load_state_dict(torch.load(work / DECODER))
    codec.to(dtype).save_pretrained(target / "speech_tokenizer")
    extractor = EncodecFeatureExtractor(feature_size=1, sampling_rate=SAMPLE_RATE)
    extractor.save_pretrained(target / "speech_tokenizer")


def main() -> None:
    """Build and list the files with their sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of the intermediate files")
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    args = parser.parse_args()
    build(args.work, args.out, getattr(torch, args.dtype))
    for path in sorted(args.out.rglob("*")):
        if path.is_file():
            print(f"{path.stat().st_size:>10}  {path}")


if __name__ == "__main__":
    main()
