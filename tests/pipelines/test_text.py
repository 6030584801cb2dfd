"""The Thinker's answer ends at an end token, at a stop string, or at the token cap."""

from __future__ import annotations

import numpy as np
import pytest

from cpspec_trt.errors import NumericError
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.pipelines.events import Silence
from cpspec_trt.pipelines.text import Answer, TextJob, TextPipeline
from cpspec_trt.pipelines.text_machine import HostTextMachine

END, VOCABULARY = 9, 12
WORDS = ["a", "bc", " ", "d", "ef", "g", "h", "i", "j", "<end>", "k", "l"]
GREEDY = FilterParameters(0.0, 0, 1.0)


class ScriptedStage:
    """Gives logits whose argmax follows a script; records what it is fed."""

    def __init__(self, script: list[int], broken_at: int | None = None) -> None:
        self.script = script
        self.broken_at = broken_at
        self.fed: list[int] = []
        self.logits = np.zeros((1, VOCABULARY), np.float32)

    def start_ids(self, prompts: list[np.ndarray]) -> None:
        self.fed = prompts[0].tolist()
        self._show(0)

    def step_ids(self, ids: np.ndarray) -> None:
        self.fed.append(int(ids[0]))
        self._show(len(self.fed) - 2)

    def _show(self, place: int) -> None:
        self.logits[:] = 0
        self.logits[0, self.script[place]] = np.nan if place == self.broken_at else 5


def decode(ids: list[int]) -> str:
    return "".join(WORDS[token] for token in ids if token != END)


def run(script: list[int], cap: int = 20, stop: tuple[str, ...] = (), broken_at: int | None = None) -> Answer:
    stage = ScriptedStage(script, broken_at)
    pipeline = TextPipeline(HostTextMachine(stage), {END}, decode)  # type: ignore[arg-type]
    answer = pipeline.generate(TextJob("request 0", (1, 2), GREEDY, 7, cap, stop), Silence())
    assert stage.fed == [1, 2, *answer.token_ids[:-1]], "the last token must never be fed"
    return answer


def test_an_end_token_ends_the_answer_and_is_no_part_of_the_text() -> None:
    answer = run([0, 1, END])
    assert (answer.text, answer.finish_reason) == ("abc", "stop")
    assert answer.token_ids == (0, 1, END)
    assert answer.spoken_ids == (0, 1)


def test_the_cap_ends_the_answer_with_length() -> None:
    answer = run([0, 1, 3, 4], cap=3)
    assert (answer.text, answer.finish_reason) == ("abcd", "length")
    assert answer.spoken_ids == (0, 1, 3)


@pytest.mark.parametrize(
    ("stop", "text", "spoken"),
    [
        (("d",), "abc ", (0, 1, 2)),
        (("de",), "abc ", (0, 1, 2)),  # over two tokens
        (("f", "c"), "ab", (0,)),  # the first to appear, in the middle of a token
        (("a",), "", ()),
    ],
)
def test_a_stop_string_is_cut_off_with_everything_after_it(
    stop: tuple[str, ...], text: str, spoken: tuple[int, ...]
) -> None:
    answer = run([0, 1, 2, 3, 4, END], stop=stop)
    assert (answer.text, answer.finish_reason, answer.spoken_ids) == (text, "stop", spoken)


def test_an_answer_of_nothing_is_empty() -> None:
    answer = run([END])
    assert (answer.text, answer.finish_reason, answer.spoken_ids) == ("", "stop", ())


def test_logits_that_are_not_finite_name_request_and_token() -> None:
    with pytest.raises(NumericError, match=r"request 0 \(Thinker, token 1\)"):
        run([0, 1, END], broken_at=1)
