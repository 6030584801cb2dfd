"""The Thinker's answer to one prompt: token by token until it ends, a stop string appears, or the cap is met."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cpspec_trt.kernels.faults import RowNumericError
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.pipelines.events import Listener
from cpspec_trt.pipelines.text_machine import TextMachine
from cpspec_trt.pipelines.times import StageTimes

Decode = Callable[[list[int]], str]


@dataclass(frozen=True, slots=True)
class TextJob:
    """A checked prompt.

    Attributes:
        name: how messages call it.
        prompt_ids: token ids.
        filters: how tokens are drawn.
        seed: of every draw.
        max_tokens: token cap, within the engine's KV capacity.
        stop: strings that end the answer; they are cut off.
    """

    name: str
    prompt_ids: tuple[int, ...]
    filters: FilterParameters
    seed: int
    max_tokens: int
    stop: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the Thinker wrote.

    Attributes:
        text: without special tokens, cut before a stop string.
        token_ids: every drawn token, the ending one included.
        finish_reason: ``stop`` (an end token or a stop string) or ``length``.
        spoken_ids: the tokens of ``text``; at the token cap all of them.
        times: time spent per stage.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: Literal["stop", "length"]
    spoken_ids: tuple[int, ...]
    times: StageTimes


class TextPipeline:
    """Runs the Thinker. Not for use by two threads at once."""

    def __init__(self, machine: TextMachine, end_ids: Set[int], decode: Decode) -> None:
        """Prepare for prompts.

        Args:
            machine: the Thinker.
            end_ids: tokens that end an answer.
            decode: token ids to text, special tokens left out.
        """
        self._machine = machine
        self._end_ids = end_ids
        self._decode = decode

    def generate(self, job: TextJob, listener: Listener) -> Answer:
        """Write the answer to a prompt.

        Raises:
            RowNumericError: the logits allow no draw; names request and token.
            EngineError: the engine failed.
        """
        machine = self._machine
        machine.take_times()  # what a prompt that failed left
        listener.text_started(job.name, job.max_tokens)
        machine.begin(np.array(job.prompt_ids, np.int64), job.filters, job.seed)
        tokens: list[int] = []
        while True:
            try:
                tokens.append(machine.token(len(tokens)))
            except RowNumericError as fault:
                raise fault.of_request(f"{job.name} (Thinker, token {len(tokens)})") from None
            listener.token_finished(len(tokens))
            if tokens[-1] in self._end_ids:
                spoken = tokens[:-1]
                return Answer(self._decode(spoken), tuple(tokens), "stop", tuple(spoken), machine.take_times())
            end = self._stop_place(tokens, job.stop)
            if end is not None:
                spoken = self._before(tokens, end)
                return Answer(self._decode(tokens)[:end], tuple(tokens), "stop", tuple(spoken), machine.take_times())
            if len(tokens) == job.max_tokens:
                return Answer(self._decode(tokens), tuple(tokens), "length", tuple(tokens), machine.take_times())
            machine.advance(len(tokens) - 1)

    def _stop_place(self, tokens: list[int], stop: tuple[str, ...]) -> int | None:
        """Where in the text the first stop string begins."""
        if not stop:
            return None
        text = self._decode(tokens)
        return min((place for place in map(text.find, stop) if place >= 0), default=None)

    def _before(self, tokens: list[int], end: int) -> list[int]:
        """The tokens whose text ends before a stop string that begins at ``end``."""
        count = len(tokens)
        while count and len(self._decode(tokens[:count])) > end:
            count -= 1
        return tokens[:count]
