"""``cpspec_trt.Omni``: what Python callers rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpspec_trt import Omni
from cpspec_trt.errors import EngineError, RequestError, SpeculationRefused, UsageError
from cpspec_trt.kernels.protocol import FilterParameters
from cpspec_trt.sampling.talker import TalkerSampler
from cpspec_trt.speculation.drafting import Drafting
from tests.conftest import Maker

USER = [{"role": "user", "content": "hello world, how are you today?"}]
SHORT: dict[str, Any] = {"max_new_tokens": 5, "max_frames": 4}


@pytest.fixture(scope="module")
def omni(omni_engines: Maker) -> Omni:
    return Omni(omni_engines("tiny", 1), threads=1)


def test_a_reply_holds_text_tokens_codes_and_samples_that_agree(omni: Omni) -> None:
    reply = omni.answer(USER, speaker="Chelsie", speculate=3, **SHORT)
    assert len(reply.token_ids) == 5
    assert reply.finish_reason == "length"
    assert reply.text
    assert reply.codes.shape == (4, 16)
    assert reply.samples.shape == (4 * 48 - 15,)
    assert reply.audio_finish_reason == "length"
    assert reply.speech is not None
    assert reply.speech.statistics.status.effective == 3


def test_without_audio_only_text_is_made(omni: Omni) -> None:
    reply = omni.answer(USER, audio=False, **SHORT)
    assert reply.text
    assert (reply.speech, reply.silence, reply.audio_finish_reason) == (None, None, None)
    assert reply.samples.shape == (0,)


def test_engines_for_text_only_refuse_to_speak_by_name(omni_engines: Maker) -> None:
    omni = Omni(omni_engines("tiny", 1), audio=False, threads=1)
    assert omni.answer(USER, audio=False, max_new_tokens=2).text
    assert omni.answer(USER, max_new_tokens=2).audio_finish_reason is None
    with pytest.raises(RequestError, match="opened for text only"):
        omni.speculation(Drafting.checked(3))


def test_the_same_seed_gives_the_same_reply_and_another_seed_another(omni: Omni) -> None:
    first, again = (omni.answer(USER, speculate=3, seed=5, **SHORT) for _ in range(2))
    other = omni.answer(USER, speculate=3, seed=6, **SHORT)
    assert first.token_ids == again.token_ids
    assert np.array_equal(first.codes, again.codes)
    assert first.token_ids != other.token_ids


def test_greedy_codes_are_equal_for_every_window(omni: Omni) -> None:
    plain = omni.answer(USER, greedy=True, **SHORT)
    for window in range(2, 9):
        assert np.array_equal(plain.codes, omni.answer(USER, greedy=True, speculate=window, **SHORT).codes)


def test_each_stage_has_a_filter_of_its_own(omni: Omni) -> None:
    greedy = FilterParameters(1.0, 0, 1.0, do_sample=False)
    whole = omni.answer(USER, greedy=True, **SHORT)
    each = omni.answer(USER, thinker=greedy, talker=greedy, code_predictor=greedy, **SHORT)
    assert whole.token_ids == each.token_ids
    assert np.array_equal(whole.codes, each.codes)


def test_a_stop_string_may_be_given_alone_or_in_a_list(omni: Omni) -> None:
    whole = omni.answer(USER, audio=False, greedy=True, max_new_tokens=12).text
    stop = whole[3:6]
    alone = omni.answer(USER, audio=False, greedy=True, max_new_tokens=12, stop=stop)
    listed = omni.answer(USER, audio=False, greedy=True, max_new_tokens=12, stop=[stop])
    assert alone.text == listed.text == whole[: whole.index(stop)]


def test_a_speech_without_a_frame_is_nothing_said(omni: Omni, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Talker may draw EOS at once; that is no success of zero samples."""
    monkeypatch.setattr(TalkerSampler, "draw", lambda sampler, logits, frame: np.array([sampler._eos]))
    reply = omni.answer(USER, greedy=True, **SHORT)
    assert reply.audio_finish_reason == "nothing_to_say"
    assert reply.silence == "the Talker ended the speech before its first frame"
    assert reply.text


def test_content_may_be_a_list_of_text_items(omni: Omni) -> None:
    items = [{"type": "text", "text": "hello world, "}, {"type": "text", "text": "how are you today?"}]
    listed = omni.answer([{"role": "user", "content": items}], greedy=True, **SHORT)
    assert listed.prompt.complete == omni.answer(USER, greedy=True, **SHORT).prompt.complete


@pytest.mark.parametrize(
    ("messages", "arguments", "error", "message"),
    [
        ([], {}, RequestError, "messages is empty"),
        ([{"role": "tool", "content": "x"}], {}, RequestError, r"answer\(\): messages\[0\].role is 'tool'"),
        ([{"role": "user", "content": 3}], {}, RequestError, r"messages\[0\].content is 3"),
        ([{"role": "user", "content": "  "}], {}, RequestError, "write what the user says"),
        (
            [{"role": "user", "content": [{"type": "image"}]}],
            {},
            RequestError,
            r"messages\[0\].content\[0\].type is .*'text'",
        ),
        (USER, {"speaker": "Etan"}, RequestError, "did you mean 'ethan'"),
        (USER, {"speculate": 1}, UsageError, "1 leaves no draft slot"),
        (USER, {"max_new_tokens": 0}, UsageError, "max_new_tokens is 0"),
        (USER, {"max_new_tokens": 2.5}, UsageError, "max_new_tokens is 2.5"),
        (USER, {"stop": [""]}, RequestError, r"stop\[0\]"),
        (USER, {"stop": [3]}, RequestError, r"stop\[0\] is 3"),
        (USER, {"stop": 3}, RequestError, "stop is 3"),
        (USER * 65, {}, RequestError, "65 messages"),
        (USER, {"audio": False, "require_speculation": True}, SpeculationRefused, "audio is False"),
        (USER, {"max_new_tokens": 600}, RequestError, "--maxKVCacheCapacity"),
        (USER, {"thinker": FilterParameters(-1.0, 0, 1.0)}, UsageError, "thinker.temperature"),
        (USER, {"require_speculation": True}, SpeculationRefused, "no verify window"),
    ],
)
def test_bad_arguments_say_what_is_wrong(
    omni: Omni, messages: list[Any], arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        omni.answer(messages, **(SHORT | arguments))


def test_a_directory_without_engines_says_how_to_build_them(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"thinker engine directory does not exist.*cpspec-build --checkpoint"):
        Omni(tmp_path)
