"""Compares this package live with the PyTorch reference, on checkpoints made from fresh seeds.

Run by `make test-reference`, in the environment of `scripts/reference/make_environment.sh tts`. For every tiny
spec a new checkpoint is written, both sides answer the same greedy requests, and codes of all groups,
finish reason, sample count and waveform are compared, without speculation and with a window of 3.
Exits 1 if anything differs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from reference.comparison import NEAR_TIE, WINDOWS, Compared, Spoken, Verdict, compare_speech, run
from reference.golden_requests import SPEECH_CASES
from reference.pytorch_reference import PyTorchReference, Request
from reference.pytorch_reference import Spoken as Expected

from cpspec_trt import TTS
from cpspec_trt.builder.build import build_checkpoint
from cpspec_trt.builder.profiles import COMPONENTS, BuildLimits
from cpspec_trt.synthetic.spec import SPECS
from cpspec_trt.synthetic.tts import write_tts_checkpoint

LIMITS = BuildLimits(max_input_len=256, max_batch_size=1, max_kv_cache_capacity=512, max_code_len=400)


def main() -> None:
    torch.set_num_threads(1)
    run(__doc__, _compare_checkpoints)


def _compare_checkpoints(seed: int) -> Iterator[Compared]:
    """All cases on one new checkpoint of every spec."""
    for spec, cases in SPEECH_CASES.items():
        print(f"{spec}, seed {seed}")
        with tempfile.TemporaryDirectory() as directory:
            checkpoint, engines = Path(directory, "checkpoint"), Path(directory, "engines")
            write_tts_checkpoint(checkpoint, SPECS[spec], seed)
            build_checkpoint(checkpoint, engines, dict.fromkeys(COMPONENTS, LIMITS), "onnxruntime")
            reference, tts = PyTorchReference(checkpoint), TTS(engines, threads=1)
            for name, request in cases.items():
                expected = reference.speak(request)
                for window in WINDOWS:
                    verdict = compare_speech(_speak(tts, request, window), expected)
                    yield Compared(_line(name, window, expected, verdict), verdict, expected.margin < NEAR_TIE)


def _speak(tts: TTS, request: Request, window: int) -> Spoken:
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
    return Spoken(spoken.codes, spoken.samples, spoken.sample_rate, spoken.finish_reason)


def _line(name: str, window: int, expected: Expected, verdict: Verdict) -> str:
    return (
        f"  {name:34} window {window}  frames {len(expected.codes):3}  {expected.finish_reason:6}  "
        f"margin {expected.margin:.1e}  waveform {verdict.waveform_error:.1e} "
    )


if __name__ == "__main__":
    main()
