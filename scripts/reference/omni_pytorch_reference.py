"""The PyTorch reference of Qwen3-Omni (``qwen3_omni_moe`` of transformers 5.24.0), run greedily in float32.

Needs the environment made by ``make_environment.sh omni``. Besides text, codes and waveform it reports how
clear each choice was, of tokens, of codes and of experts.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from reference.spies import calls, greedy_margins, routing_margins
from transformers import AutoTokenizer, Qwen3OmniMoeConfig, Qwen3OmniMoeForConditionalGeneration
from transformers.core_model_loading import revert_weight_conversion

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

SAMPLE_RATE = 24_000  # the family's; neither the model nor its config names it


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is asked. ``speaker`` None means text only; then the last two fields say nothing."""

    messages: list[dict[str, Any]]
    speaker: str | None
    max_new_tokens: int
    max_frames: int
    repetition_penalty: float


@dataclass(frozen=True, slots=True)
class Speech:
    """``codes`` int64 [frames, groups]; ``waveform`` float32 [samples]; ``finish_reason`` stop or length."""

    codes: NDArray[np.int64]
    waveform: NDArray[np.float32]
    sample_rate: int
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the reference answered.

    ``token_ids`` are the generated ones, the end of the message included; ``speech`` is None for text only.
    ``margin`` is the smallest gap between the best and the second best logit of all ``choices`` made;
    ``routing_margin`` the smallest gap between router logits of an expert chosen and one left out.
    """

    token_ids: list[int]
    text: str
    finish_reason: str
    speech: Speech | None
    margin: float
    choices: int
    routing_margin: float


@dataclass(frozen=True, slots=True)
class ThinkerStates:
    """What the Thinker makes of ``token_ids`` [rows] in one pass.

    ``accept_hidden`` float32 [rows, hidden] is the hidden state that the Talker would take; ``logits`` float32
    [vocab] are those of the last row.
    """

    token_ids: list[int]
    accept_hidden: NDArray[np.float32]
    logits: NDArray[np.float32]


class NothingSpoken(Exception):
    """The reference cannot speak: the Thinker ended before its first word, or the Talker before its first frame."""


class OmniPyTorchReference:
    """One checkpoint, loaded in float32; every tensor of its files must find its place."""

    def __init__(self, checkpoint: Path) -> None:
        self.model, loading = Qwen3OmniMoeForConditionalGeneration.from_pretrained(
            checkpoint, dtype=torch.float32, output_loading_info=True
        )
        if faults := {what: found for what, found in loading.items() if found}:
            raise AssertionError(f"{checkpoint}: {faults}")
        self.model.eval()
        self.tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        # Only the processor, which needs image libraries, reads the published form of the template.
        self._template = self.tokenizer.chat_template
        if self._template is None:
            self._template = json.loads((checkpoint / "chat_template.json").read_text(encoding="utf-8"))[
                "chat_template"
            ]

    def answer(self, conversation: Conversation) -> Answer:
        """Answer one conversation greedily, in Thinker, Talker and CodePredictor."""
        with greedy_margins() as margins, routing_margins(self.model) as routing:
            ((token_ids, speech),) = self._generate([conversation])
        spoken = 0 if speech is None else speech.codes.size + 1
        if len(margins) != len(token_ids) + spoken:
            raise AssertionError(f"{len(margins)} greedy choices for {len(token_ids)} tokens and {spoken} codes")
        return Answer(
            token_ids=token_ids,
            text=self.tokenizer.decode(token_ids, skip_special_tokens=True),
            finish_reason="stop" if token_ids[-1] == self.model.config.im_end_token_id else "length",
            speech=speech,
            margin=min(margins),
            choices=len(margins),
            routing_margin=min(routing),
        )

    def answer_together(self, conversations: Sequence[Conversation]) -> list[tuple[list[int], Speech | None]]:
        """Token ids and speech of several conversations in one left-padded batch; all but the messages must agree."""
        return self._generate(conversations)

    def decode(self, codes: NDArray[np.int64]) -> NDArray[np.float32]:
        """Codes [frames, groups] to samples, as one piece."""
        with torch.no_grad():
            return self.model.code2wav(torch.from_numpy(codes.T[None].copy())).numpy()[0, 0]

    def thinker_states(self, conversation: Conversation) -> ThinkerStates:
        """Run the Thinker over a prompt."""
        inputs = self.tokenizer(self._prompt(conversation), return_tensors="pt")
        with torch.no_grad():
            outputs = self.model.thinker(**inputs, output_hidden_states=True)
        layer = self.model.config.talker_config.accept_hidden_layer
        return ThinkerStates(
            token_ids=inputs["input_ids"][0].tolist(),
            accept_hidden=outputs.hidden_states[layer][0].numpy(),
            logits=outputs.logits[0, -1].numpy(),
        )

    def save(self, directory: Path) -> None:
        """Write the checkpoint again as transformers itself does, tokenizer and chat template included."""
        self.tokenizer.chat_template = self._template
        self.model.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)

    def _prompt(self, conversation: Conversation) -> str:
        return self.tokenizer.apply_chat_template(
            conversation.messages, chat_template=self._template, add_generation_prompt=True, tokenize=False
        )

    def _generate(self, conversations: Sequence[Conversation]) -> list[tuple[list[int], Speech | None]]:
        first = conversations[0]
        prompts = [self._prompt(conversation) for conversation in conversations]
        inputs = self.tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
        arguments = {
            "thinker_max_new_tokens": first.max_new_tokens,
            "thinker_do_sample": False,
            "thinker_eos_token_id": self.model.config.im_end_token_id,
            # The last token is never completed to a frame: it is the end, or one more than the limit.
            "talker_max_new_tokens": first.max_frames + 1,
            "talker_do_sample": False,
            "talker_repetition_penalty": first.repetition_penalty,
        }
        start = inputs["input_ids"].shape[1]
        if first.speaker is None:
            sequences = self.model.generate(**inputs, return_audio=False, **arguments)
            return [(row[start:].tolist(), None) for row in sequences]
        with (
            calls(self.model.code2wav, "chunked_decode") as decoded,
            calls(self.model.talker, "generate") as spoken,
            _silence(),
        ):
            sequences, waveforms = self.model.generate(**inputs, speaker=first.speaker, **arguments)
        codes = decoded[0][0][0].transpose(1, 2).numpy()
        talker_tokens = spoken[0][1].sequences
        return [
            (row[start:].tolist(), self._speech(tokens.tolist(), own_codes, waveform.reshape(-1).numpy()))
            for row, tokens, own_codes, waveform in zip(sequences, talker_tokens, codes, waveforms, strict=True)
        ]

    def _speech(self, tokens: list[int], codes: NDArray[np.int64], waveform: NDArray[np.float32]) -> Speech:
        """``tokens`` are the Talker's; in a batch they and the codes go on behind the end of a shorter sequence."""
        end = self.model.config.talker_config.codec_eos_token_id
        frames = tokens.index(end) if end in tokens else len(tokens) - 1
        return Speech(codes[:frames], waveform, SAMPLE_RATE, "stop" if end in tokens else "length")


@contextmanager
def _silence() -> Iterator[None]:
    """Tell the two faults that ``generate`` runs into with nothing to say or nothing said from all others."""
    try:
        yield
    except RuntimeError as fault:
        if "must match the size" in str(fault) or "expects a non-empty TensorList" in str(fault):
            raise NothingSpoken(str(fault)) from fault
        raise


def tensor_shapes(config: dict[str, Any]) -> dict[str, list[int]]:
    """Names and shapes of every tensor the reference writes into files for a config. Nothing is allocated.

    In memory some names differ, and the experts of a layer are one tensor; in files each has its own three.
    """
    with torch.device("meta"):
        model = Qwen3OmniMoeForConditionalGeneration(Qwen3OmniMoeConfig(**config))
        stored = revert_weight_conversion(model, model.state_dict())
    return {name: list(tensor.shape) for name, tensor in stored.items()}
