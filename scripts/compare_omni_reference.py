"""Compares this package live with the PyTorch reference of Qwen3-Omni, on checkpoints made from fresh seeds.

Run by `make test-reference`, in the environment of `scripts/reference/make_environment.sh omni`. For every tiny
spec a new checkpoint is written, both sides answer the same conversations greedily, and text, token ids, codes of
all groups, finish reasons, sample count and waveform are compared, without speculation and with a window of 3.
The first spec is then saved again by transformers and must give the same answers. Exits 1 if anything differs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from reference.comparison import NEAR_TIE, WINDOWS, Compared, Spoken, Verdict, compare_speech, run
from reference.omni_golden_requests import OMNI_CASES, PAIR
from reference.omni_pytorch_reference import Answer, Conversation, NothingSpoken, OmniPyTorchReference

from cpspec_trt import Omni, Reply
from cpspec_trt.builder.build import build_checkpoint
from cpspec_trt.builder.profiles import COMPONENTS, BuildLimits
from cpspec_trt.synthetic.omni import write_omni_checkpoint
from cpspec_trt.synthetic.omni_spec import OMNI_SPECS

LIMITS = BuildLimits(max_input_len=256, max_batch_size=1, max_kv_cache_capacity=512, max_code_len=400)
SAVED_AGAIN = "tiny"
# Router logits are sums of fewer terms than a token's; where they are nearer, the experts may differ.
NEAR_ROUTING_TIE = 2e-6


def main() -> None:
    torch.set_num_threads(1)
    run(__doc__, _compare_checkpoints)


def _compare_checkpoints(seed: int) -> Iterator[Compared]:
    """All cases on one new checkpoint of every spec."""
    for spec, cases in OMNI_CASES.items():
        print(f"{spec}, seed {seed}")
        with tempfile.TemporaryDirectory() as directory:
            checkpoint, saved = Path(directory, "checkpoint"), Path(directory, "saved")
            write_omni_checkpoint(checkpoint, OMNI_SPECS[spec], seed)
            reference = OmniPyTorchReference(checkpoint)
            conversations = {**cases, **(PAIR.conversations if spec == PAIR.spec else {})}
            answers = _reference_answers(reference, conversations)
            yield from _compare(_build(checkpoint, Path(directory, "engines")), conversations, answers)
            if spec == SAVED_AGAIN:
                print(f"{spec}, seed {seed}, saved by transformers")
                reference.save(saved)
                yield from _compare(_build(saved, Path(directory, "engines-saved")), conversations, answers)


def _reference_answers(
    reference: OmniPyTorchReference, conversations: Mapping[str, Conversation]
) -> dict[str, Answer | None]:
    """None where the reference itself fails, because a fresh seed left it without a word or a frame."""
    answers: dict[str, Answer | None] = {}
    for name, conversation in conversations.items():
        try:
            answers[name] = reference.answer(conversation)
        except NothingSpoken:
            answers[name] = None
    return answers


def _build(checkpoint: Path, engines: Path) -> Omni:
    build_checkpoint(checkpoint, engines, dict.fromkeys(COMPONENTS, LIMITS), "onnxruntime")
    return Omni(engines, threads=1)


def _compare(
    omni: Omni, conversations: Mapping[str, Conversation], answers: Mapping[str, Answer | None]
) -> Iterator[Compared]:
    for name, conversation in conversations.items():
        expected = answers[name]
        if expected is None:
            yield Compared(f"  {name:28} the reference fails: nothing to say ", _silent(omni, conversation), False)
            continue
        near_tie = expected.margin < NEAR_TIE or expected.routing_margin < NEAR_ROUTING_TIE
        for window in WINDOWS if conversation.speaker else WINDOWS[:1]:
            verdict = _compare_answer(omni, conversation, window, expected)
            yield Compared(_line(name, window, expected, verdict), verdict, near_tie)


def _reply(omni: Omni, conversation: Conversation, window: int) -> Reply:
    return omni.answer(
        conversation.messages,
        speaker=conversation.speaker,
        audio=conversation.speaker is not None,
        repetition_penalty=conversation.repetition_penalty,
        max_new_tokens=conversation.max_new_tokens,
        max_frames=conversation.max_frames,
        greedy=True,
        speculate=window,
        require_speculation=window > 0,
    )


def _silent(omni: Omni, conversation: Conversation) -> Verdict:
    """Where the reference fails for want of a word or a frame, ours answers without a sound."""
    reply = _reply(omni, conversation, WINDOWS[0])
    return Verdict(f"{len(reply.samples)} samples instead of none" if reply.samples.size else None, np.nan)


def _compare_answer(omni: Omni, conversation: Conversation, window: int, expected: Answer) -> Verdict:
    """Answer one conversation and name the first thing that differs."""
    reply = _reply(omni, conversation, window)
    ours = (list(reply.token_ids), reply.text, reply.finish_reason)
    theirs = (expected.token_ids, expected.text, expected.finish_reason)
    for what, found, wanted in zip(("token ids", "text", "finish reason"), ours, theirs, strict=True):
        if found != wanted:
            return Verdict(f"{what} {found!r} instead of {wanted!r}", np.nan)
    if expected.speech is None:
        return Verdict(None if reply.audio_finish_reason is None else "it speaks", np.nan)
    spoken = Spoken(reply.codes, reply.samples, reply.sample_rate, str(reply.audio_finish_reason))
    return compare_speech(spoken, expected.speech)


def _line(name: str, window: int, expected: Answer, verdict: Verdict) -> str:
    frames = "" if expected.speech is None else f"frames {len(expected.speech.codes):3} {expected.speech.finish_reason}"
    return (
        f"  {name:28} window {window}  tokens {len(expected.token_ids):3} {expected.finish_reason:6}  {frames:17}  "
        f"margin {expected.margin:.1e} experts {expected.routing_margin:.1e}  waveform {verdict.waveform_error:.1e} "
    )


if __name__ == "__main__":
    main()
