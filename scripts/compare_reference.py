"""Compares this package live with the PyTorch reference, on checkpoints made from fresh seeds.

Run by `make test-reference`, in the environment of scripts/reference/make_environment.sh. For every tiny
spec a new checkpoint is written, both sides answer the same greedy requests, and codes of all groups,
finish reason, sample count and waveform are compared, without speculation and with a window of 3.
Exits 1 if anything differs.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from reference.golden_requests import SPEECH_CASES
from reference.pytorch_reference import PyTorchReference, Request, Spoken

from cpspec_trt import TTS
from cpspec_trt.builder.build import COMPONENTS, build_checkpoint
from cpspec_trt.builder.profiles import BuildLimits
from cpspec_trt.synthetic.spec import SPECS
from cpspec_trt.synthetic.tts import write_tts_checkpoint

WINDOWS = (0, 3)
WAVEFORM_TOLERANCE = 1e-4
# Where two logits are nearer than this, two correct float32 implementations may choose differently.
NEAR_TIE = 2e-5
LIMITS = BuildLimits(max_input_len=256, max_batch_size=1, max_kv_cache_capacity=512, max_code_len=400)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer of ours against the reference's: what differs, if anything, and how far the sound is off."""

    difference: str | None
    waveform_error: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="seed of the first checkpoint (default: a fresh one, printed)")
    parser.add_argument("--rounds", type=int, default=2, help="checkpoints per spec (default: 2)")
    options = parser.parse_args()
    first = secrets.randbelow(2**31) if options.seed is None else options.seed
    torch.set_num_threads(1)
    failures = compared = 0
    for seed in range(first, first + options.rounds):
        for spec in SPEECH_CASES:
            print(f"{spec}, seed {seed}")
            wrong, answers = _compare_checkpoint(spec, seed)
            failures, compared = failures + wrong, compared + answers
    print(f"{compared - failures} of {compared} answers equal (repeat with --seed {first} --rounds {options.rounds})")
    sys.exit(1 if failures or not compared else 0)


def _compare_checkpoint(spec: str, seed: int) -> tuple[int, int]:
    """Numbers of wrong and of compared answers on one new checkpoint."""
    failures = compared = 0
    with tempfile.TemporaryDirectory() as directory:
        checkpoint, engines = Path(directory, "checkpoint"), Path(directory, "engines")
        write_tts_checkpoint(checkpoint, SPECS[spec], seed)
        build_checkpoint(checkpoint, engines, dict.fromkeys(COMPONENTS, LIMITS), "onnxruntime")
        reference, tts = PyTorchReference(checkpoint), TTS(engines, threads=1)
        for name, request in SPEECH_CASES[spec].items():
            expected = reference.speak(request)
            for window in WINDOWS:
                verdict = _compare(tts, request, window, expected)
                near_tie = verdict.difference is not None and expected.margin < NEAR_TIE
                compared += not near_tie
                failures += verdict.difference is not None and not near_tie
                print(_line(name, window, expected, verdict, near_tie))
    return failures, compared


def _compare(tts: TTS, request: Request, window: int, expected: Spoken) -> Verdict:
    """Speak one request and name the first thing that differs."""
    spoken = tts.speak(
        request.text,
        speaker=request.speaker,
        language=request.language,
        instruct=request.instruct,
        non_streaming=request.non_streaming,
        repetition_penalty=request.repetition_penalty,
        max_frames=request.max_frames,
        greedy=True,
        speculate=window,
        require_speculation=window > 0,
    )
    if spoken.codes.shape != expected.codes.shape:
        return Verdict(f"codes {spoken.codes.shape} instead of {expected.codes.shape}", np.nan)
    if not np.array_equal(spoken.codes, expected.codes):
        frame, group = np.argwhere(spoken.codes != expected.codes)[0]
        return Verdict(f"codes differ from frame {frame}, group {group} on", np.nan)
    if spoken.finish_reason != expected.finish_reason:
        return Verdict(f"finish reason {spoken.finish_reason} instead of {expected.finish_reason}", np.nan)
    if spoken.samples.shape != expected.waveform.shape or spoken.sample_rate != expected.sample_rate:
        return Verdict(f"{spoken.samples.size} samples instead of {expected.waveform.size}", np.nan)
    error = float(np.abs(spoken.samples - expected.waveform).max())
    return Verdict(None if error <= WAVEFORM_TOLERANCE else "the waveform differs", error)


def _line(name: str, window: int, expected: Spoken, verdict: Verdict, near_tie: bool) -> str:
    result = verdict.difference or "equal"
    if near_tie:
        result = f"near tie, not counted ({result})"
    return (
        f"  {name:34} window {window}  frames {len(expected.codes):3}  {expected.finish_reason:6}  "
        f"margin {expected.margin:.1e}  waveform {verdict.waveform_error:.1e}  {result}"
    )


if __name__ == "__main__":
    main()
