"""Writes tests/goldens from the PyTorch reference: greedy codes, waveforms, tensor names.

Run by `make goldens`, in the environment of `scripts/reference/make_environment.sh tts`. The checkpoints come
from ``cpspec_trt.synthetic`` (spec and seed are stored, the weights are not) and from assets/demo-voice.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from reference.golden_files import (
    LEAST_MARGIN,
    ROOT,
    Arrays,
    file_hashes,
    refuse_equal_answers,
    write_arrays,
    write_json,
)
from reference.golden_requests import DECODER_CASES, DEMO_CASES, SEEDS, SPEECH_CASES, DecoderCase
from reference.pytorch_reference import PyTorchReference, Request, Spoken, tensor_shapes

from cpspec_trt.synthetic.configs import model_config, speech_config
from cpspec_trt.synthetic.spec import SPECS
from cpspec_trt.synthetic.tokenizer import write_tokenizer
from cpspec_trt.synthetic.tts import write_tts_checkpoint

DEMO_CHECKPOINT = "assets/demo-voice/checkpoint"
LAYOUT_SPECS = ("tiny", "tiny_square", "tiny_design", "published_0b6", "published_1b7")


def main() -> None:
    torch.set_num_threads(1)
    arrays: Arrays = {}
    with tempfile.TemporaryDirectory() as directory:
        references, checkpoints = _synthetic_references(Path(directory))
        speech = [
            _speech_case(name, request, references[spec], _synthetic(spec), arrays, whole=True)
            for spec, cases in SPEECH_CASES.items()
            for name, request in cases.items()
        ]
        decoder = [_decoder_case(name, case, references[case.spec], arrays) for name, case in DECODER_CASES.items()]
    refuse_equal_answers(arrays)
    if not any(case["bans"] for case in speech):
        raise SystemExit("in no case is the end of speech banned at the start; choose another seed for tiny_square")
    demo = PyTorchReference(ROOT / DEMO_CHECKPOINT)
    speech += [
        _speech_case(name, request, demo, {"path": DEMO_CHECKPOINT}, arrays, whole=position < 2)
        for position, (name, request) in enumerate(DEMO_CASES.items())
    ]
    versions = {"qwen-tts": "0.1.1", "transformers": transformers.__version__, "torch": torch.__version__}
    write_arrays("speech.npz", arrays)
    write_json("speech.json", {"made_with": versions, "checkpoints": checkpoints, "speech": speech, "decoder": decoder})
    write_json("tensors.json", {name: _layout(name) for name in LAYOUT_SPECS})


def _synthetic(spec: str) -> dict[str, Any]:
    return {"spec": spec, "seed": SEEDS[spec]}


def _synthetic_references(directory: Path) -> tuple[dict[str, PyTorchReference], list[dict[str, Any]]]:
    """The reference over each tiny checkpoint, and what identifies those checkpoints."""
    references, checkpoints = {}, []
    for spec, seed in SEEDS.items():
        write_tts_checkpoint(directory / spec, SPECS[spec], seed)
        references[spec] = PyTorchReference(directory / spec)
        checkpoints.append(_synthetic(spec) | {"sha256": file_hashes(directory / spec)})
    return references, checkpoints


def _speech_case(
    name: str, request: Request, reference: PyTorchReference, checkpoint: Mapping[str, Any], arrays: Arrays, whole: bool
) -> dict[str, Any]:
    """Run one request; keep its codes and its waveform, or only the last two frames of the waveform."""
    spoken = reference.speak(request)
    if spoken.margin < LEAST_MARGIN:
        raise SystemExit(f"{name}: two logits are only {spoken.margin:.1e} apart; choose another seed or text")
    offset = 0 if whole else len(spoken.waveform) // len(spoken.codes) * (len(spoken.codes) - 2)
    arrays[f"{name}.codes"] = spoken.codes.astype(np.int16)
    arrays[f"{name}.waveform"] = spoken.waveform[offset:]
    _report(name, spoken)
    return {
        "name": name,
        "checkpoint": dict(checkpoint),
        "request": asdict(request),
        "finish_reason": spoken.finish_reason,
        "frames": len(spoken.codes),
        "samples": len(spoken.waveform),
        "sample_rate": spoken.sample_rate,
        "waveform_offset": offset,
        "margin": spoken.margin,
        "choices": spoken.choices,
        "bans": spoken.bans,
    }


def _decoder_case(name: str, case: DecoderCase, reference: PyTorchReference, arrays: Arrays) -> dict[str, Any]:
    """Random codes through the decoder alone."""
    spec = SPECS[case.spec]
    codes = np.random.default_rng(case.frames).integers(spec.codebook_size, size=(case.frames, spec.num_code_groups))
    waveform, sample_rate = reference.decode(codes)
    arrays[f"{name}.codes"] = codes.astype(np.int16)
    arrays[f"{name}.waveform"] = waveform
    return {
        "name": name,
        "checkpoint": _synthetic(case.spec),
        "frames": case.frames,
        "samples": len(waveform),
        "sample_rate": sample_rate,
    }


def _layout(name: str) -> dict[str, list[int]]:
    """Names and shapes the reference's own modules have for a spec's config files."""
    with tempfile.TemporaryDirectory() as directory:
        vocabulary = write_tokenizer(Path(directory), SPECS[name].text_base_vocab)
    return tensor_shapes(model_config(SPECS[name], vocabulary), speech_config(SPECS[name]))


def _report(name: str, spoken: Spoken) -> None:
    peak = float(np.abs(spoken.waveform).max())
    print(
        f"{name:36} frames {len(spoken.codes):3}  {spoken.finish_reason:6}  "
        f"margin {spoken.margin:.1e} of {spoken.choices} choices  peak {peak:.2f}  bans {spoken.bans}"
    )


if __name__ == "__main__":
    main()
