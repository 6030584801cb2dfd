"""Writes the goldens of Qwen3-Omni from the PyTorch reference: greedy text, codes, waveforms, tensor names.

Run by `make goldens`, in the environment of `scripts/reference/make_environment.sh omni`. The checkpoints come
from ``cpspec_trt.synthetic``: spec and seed are stored, the weights are not.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from reference.golden_files import LEAST_MARGIN, Arrays, file_hashes, refuse_equal_answers, write_arrays, write_json
from reference.omni_golden_requests import CODE2WAV_CASES, OMNI_CASES, PAIR, SEEDS, Code2WavCase
from reference.omni_pytorch_reference import (
    SAMPLE_RATE,
    Answer,
    Conversation,
    OmniPyTorchReference,
    Speech,
    tensor_shapes,
)
from safetensors import safe_open

from cpspec_trt.synthetic.omni import write_omni_checkpoint
from cpspec_trt.synthetic.omni_configs import omni_config
from cpspec_trt.synthetic.omni_spec import OMNI_SPECS
from cpspec_trt.synthetic.tokenizer import write_tokenizer

# Router logits of an expert chosen and of one left out: far above the 2e-6 by which correct sums differ.
LEAST_ROUTING_MARGIN = 2e-5
STATES_CASE = "system_and_turns"
STATES_SPECS = ("tiny", "tiny_ending")
LISTED_LAYOUTS = ("tiny",)


def main() -> None:
    torch.set_num_threads(1)
    arrays: Arrays = {}
    with tempfile.TemporaryDirectory() as directory:
        references, checkpoints = _references(Path(directory))
        _check_saved_names(references["tiny"], Path(directory, "saved"))
        conversations = [
            _conversation_case(name, conversation, references[spec], _checkpoint(spec), arrays)
            for spec, cases in OMNI_CASES.items()
            for name, conversation in cases.items()
        ]
        conversations += _pair_cases(references[PAIR.spec], arrays)
        code2wav = [_code2wav_case(name, case, references[case.spec], arrays) for name, case in CODE2WAV_CASES.items()]
        thinker = [_thinker_case(spec, references[spec], arrays) for spec in STATES_SPECS]
    refuse_equal_answers(arrays)
    _require_every_end(conversations)
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    write_arrays("omni.npz", arrays)
    write_json(
        "omni.json",
        {
            "made_with": versions,
            "checkpoints": checkpoints,
            "conversations": conversations,
            "code2wav": code2wav,
            "thinker": thinker,
        },
    )
    layouts = {name: _layout(name) for name in OMNI_SPECS}
    write_json(
        "omni_tensors.json",
        {
            "listed": {name: layouts[name] for name in LISTED_LAYOUTS},
            "digests": {name: _digest(layout) for name, layout in layouts.items()},
        },
    )


def _checkpoint(spec: str) -> dict[str, Any]:
    return {"spec": spec, "seed": SEEDS[spec]}


def _references(directory: Path) -> tuple[dict[str, OmniPyTorchReference], list[dict[str, Any]]]:
    """The reference over each tiny checkpoint, and what identifies those checkpoints."""
    references, checkpoints = {}, []
    for spec, seed in SEEDS.items():
        write_omni_checkpoint(directory / spec, OMNI_SPECS[spec], seed)
        references[spec] = OmniPyTorchReference(directory / spec)
        checkpoints.append(_checkpoint(spec) | {"sha256": file_hashes(directory / spec)})
    return references, checkpoints


def _check_saved_names(reference: OmniPyTorchReference, directory: Path) -> None:
    """The names derived from the modules in memory must be those that the reference itself writes."""
    reference.save(directory)
    with safe_open(directory / "model.safetensors", "pt") as file:
        saved = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    layout = _layout("tiny")
    if other := sorted(name for name in saved.keys() | layout.keys() if saved.get(name) != layout.get(name)):
        raise SystemExit(f"transformers saves other tensors: {other}")


def _conversation_case(
    name: str, conversation: Conversation, reference: OmniPyTorchReference, checkpoint: dict[str, Any], arrays: Arrays
) -> dict[str, Any]:
    answer = reference.answer(conversation)
    if answer.margin < LEAST_MARGIN:
        raise SystemExit(f"{name}: two logits are only {answer.margin:.1e} apart; choose another seed or text")
    if answer.routing_margin < LEAST_ROUTING_MARGIN:
        raise SystemExit(f"{name}: two experts are only {answer.routing_margin:.1e} apart; choose another seed or text")
    if answer.speech is not None:
        arrays[f"{name}.codes"] = answer.speech.codes.astype(np.int16)
        arrays[f"{name}.waveform"] = answer.speech.waveform
    _report(name, answer)
    return {
        "name": name,
        "checkpoint": checkpoint,
        "request": asdict(conversation),
        "token_ids": answer.token_ids,
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        "speech": None if answer.speech is None else _speech_facts(answer.speech),
        "margin": answer.margin,
        "choices": answer.choices,
        "routing_margin": answer.routing_margin,
    }


def _require_every_end(cases: list[dict[str, Any]]) -> None:
    """Text and speech must end in both ways, speech once exactly at its cap; one answer is empty, one a single word."""
    text = {case["finish_reason"] for case in cases}
    spoken = [case for case in cases if case["speech"]]
    speech = {case["speech"]["finish_reason"] for case in spoken}
    at_cap = {
        case["speech"]["finish_reason"] for case in spoken if case["speech"]["frames"] == case["request"]["max_frames"]
    }
    shortest = {len(case["token_ids"]) for case in cases if case["finish_reason"] == "stop"}
    if text != {"stop", "length"} or not speech == at_cap == text or not {1, 2} <= shortest:
        raise SystemExit(f"text ends by {text}, speech by {speech} (at its cap {at_cap}), after {shortest} tokens")


def _speech_facts(speech: Speech) -> dict[str, Any]:
    return {
        "finish_reason": speech.finish_reason,
        "frames": len(speech.codes),
        "samples": len(speech.waveform),
        "sample_rate": speech.sample_rate,
    }


def _pair_cases(reference: OmniPyTorchReference, arrays: Arrays) -> list[dict[str, Any]]:
    """Each of the pair alone, which must equal what the reference answers to both in one batch."""
    together = reference.answer_together(list(PAIR.conversations.values()))
    cases = []
    for (name, conversation), (token_ids, speech) in zip(PAIR.conversations.items(), together, strict=True):
        case = _conversation_case(name, conversation, reference, _checkpoint(PAIR.spec), arrays)
        equal = speech is not None and np.array_equal(arrays[f"{name}.codes"], speech.codes)
        if speech is None or not equal or token_ids != case["token_ids"]:
            raise SystemExit(f"{name}: the reference answers otherwise in a batch")
        arrays[f"{name}.waveform"] = speech.waveform
        cases.append(case)
    return cases


def _code2wav_case(name: str, case: Code2WavCase, reference: OmniPyTorchReference, arrays: Arrays) -> dict[str, Any]:
    """Random codes through code2wav alone."""
    spec = OMNI_SPECS[case.spec]
    codes = np.random.default_rng(case.frames).integers(spec.codebook_size, size=(case.frames, spec.num_code_groups))
    waveform = reference.decode(codes)
    arrays[f"{name}.codes"] = codes.astype(np.int16)
    arrays[f"{name}.waveform"] = waveform
    print(f"{name:28} frames {case.frames:3}  samples {len(waveform)}  peak {np.abs(waveform).max():.2f}")
    return {
        "name": name,
        "checkpoint": _checkpoint(case.spec),
        "frames": case.frames,
        "samples": len(waveform),
        "sample_rate": SAMPLE_RATE,
    }


def _thinker_case(spec: str, reference: OmniPyTorchReference, arrays: Arrays) -> dict[str, Any]:
    """The Thinker's hidden states and logits over one prompt."""
    states = reference.thinker_states(OMNI_CASES["tiny"][STATES_CASE])
    name = f"thinker_{spec}"
    arrays[f"{name}.accept_hidden"] = states.accept_hidden
    arrays[f"{name}.logits"] = states.logits
    return {"name": name, "checkpoint": _checkpoint(spec), "token_ids": states.token_ids}


def _layout(name: str) -> dict[str, list[int]]:
    """Names and shapes the reference's own modules have for a spec's config file."""
    with tempfile.TemporaryDirectory() as directory:
        vocabulary = write_tokenizer(Path(directory), OMNI_SPECS[name].text_base_vocab)
    return tensor_shapes(omni_config(OMNI_SPECS[name], vocabulary))


def _digest(layout: dict[str, list[int]]) -> dict[str, Any]:
    """The published layout has 28,010 tensors: their number and the SHA-256 of the sorted list stand for them."""
    lines = "".join(f"{name} {shape}\n" for name, shape in sorted(layout.items()))
    return {"tensors": len(layout), "sha256": hashlib.sha256(lines.encode()).hexdigest()}


def _report(name: str, answer: Answer) -> None:
    line = f"{name:28} tokens {len(answer.token_ids):3} {answer.finish_reason:6}  margin {answer.margin:.1e} of "
    line += f"{answer.choices:4} choices, {answer.routing_margin:.1e} of experts"
    if (speech := answer.speech) is not None:
        peak = float(np.abs(speech.waveform).max())
        line += f"  frames {len(speech.codes):3} {speech.finish_reason:6}  peak {peak:.2f}"
    print(line)


if __name__ == "__main__":
    main()
