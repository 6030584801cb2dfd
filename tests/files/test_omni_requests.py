"""Qwen3-Omni request files: what is accepted, merged, warned about and refused, and in which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpspec_trt.errors import InputFileError, UsageError
from cpspec_trt.files.omni_requests import ChatMessage, OmniRequestFile, ThinkerSettings, read_omni_requests
from tests.files.wrong_values import BIG, SPEECH, cases


def message(content: Any = "Hello.", role: Any = "user") -> dict[str, Any]:
    return {"role": role, "content": content}


def request(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages) or [message()], **fields}


def document(*requests: Any, **fields: Any) -> dict[str, Any]:
    return {"requests": list(requests) or [request()], **fields}


def write(directory: Path, value: Any) -> Path:
    path = directory / "input.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def read(directory: Path, value: Any, **flags: Any) -> OmniRequestFile:
    return read_omni_requests(write(directory, value), **{"strict": False, **flags})


def refusal(directory: Path, value: Any, strict: bool = False) -> str:
    """The one-line error without the file name it must begin with."""
    path = write(directory, value)
    with pytest.raises(InputFileError) as caught:
        read_omni_requests(path, strict)
    found = str(caught.value)
    assert len(found.splitlines()) == 1
    assert found.startswith(f"{path}: ")
    return found.removeprefix(f"{path}: ")


def test_a_file_of_the_reference_is_read_field_by_field(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        {
            "batch_size": 2,
            "temperature": 0.7,
            "top_p": 0.9,
            "top_k": 40,
            "sampling_seed": 5,
            "max_generate_length": 64,
            "apply_chat_template": True,
            "add_generation_prompt": False,
            "enable_thinking": True,
            "talker_temperature": 0.8,
            "talker_top_k": 30,
            "talker_top_p": 0.95,
            "repetition_penalty": 1.1,
            "streaming": {"enable": False, "codec_chunk_frames": 10, "talker_prefill_threshold": 4},
            "max_audio_length": 300,
            "speaker": "chelsie",
            "requests": [
                request(
                    message("Be brief.", "system"),
                    message([{"type": "text", "text": "How "}, {"type": "text", "text": "far?"}]),
                    message("Far.", "assistant"),
                    message("How far?"),
                    stop=["\n", "###"],
                ),
                request(),
            ],
        },
        strict=True,
    )
    assert file.batch_size == 2
    assert file.warnings == ()
    first, second = file.requests
    assert first.messages == (
        ChatMessage("system", "Be brief."),
        ChatMessage("user", ("How ", "far?")),
        ChatMessage("assistant", "Far."),
        ChatMessage("user", "How far?"),
    )
    assert first.thinker == ThinkerSettings(
        temperature=0.7, top_p=0.9, top_k=40, max_generate_length=64, do_sample=None
    )
    assert (first.stop, second.stop) == (("\n", "###"), ())
    assert (first.apply_chat_template, first.add_generation_prompt, first.enable_thinking) == (True, False, True)
    assert (first.talker.talker_temperature, first.talker.talker_top_k, first.talker.talker_top_p) == (0.8, 30, 0.95)
    assert (first.talker.repetition_penalty, first.talker.max_audio_length) == (1.1, 300)
    assert (first.speaker, first.seed, second.seed, second.index) == ("chelsie", 5, 6, 1)


def test_a_minimal_file_leaves_everything_to_the_defaults(tmp_path: Path) -> None:
    (only,) = read(tmp_path, document(), strict=True).requests
    assert only.thinker == ThinkerSettings(None, None, None, None, None)
    assert (only.apply_chat_template, only.add_generation_prompt, only.enable_thinking) == (True, True, None)
    assert (only.stop, only.speaker, only.seed, only.talker.seed) == ((), None, 42, 42)
    assert only.talker.do_sample is None


@pytest.mark.parametrize(
    ("field", "for_all", "own"),
    [
        ("temperature", 0.5, 0.0),
        ("top_p", 0.5, 0.25),
        ("top_k", 5, 0),
        ("max_generate_length", 5, 6),
        ("do_sample", True, False),
        ("talker_temperature", 0.5, 0.25),
        ("talker_top_k", 5, 6),
        ("talker_top_p", 0.5, 0.25),
        ("repetition_penalty", 2.0, 3.0),
        ("subtalker_temperature", 0.5, 0.25),
        ("subtalker_top_k", 5, 6),
        ("subtalker_top_p", 0.5, 0.25),
        ("max_audio_length", 5, 6),
        ("subtalker_do_sample", True, False),
        ("apply_chat_template", True, False),
        ("add_generation_prompt", True, False),
        ("enable_thinking", True, False),
        ("speaker", "ethan", "aiden"),
    ],
)
def test_a_request_overrides_the_values_of_the_file(tmp_path: Path, field: str, for_all: Any, own: Any) -> None:
    file = read(tmp_path, document(request(), request(**{field: own}), **{field: for_all}))
    for found, expected in zip(file.requests, (for_all, own), strict=True):
        holder = next(each for each in (found, found.thinker, found.talker) if hasattr(each, field))
        assert getattr(holder, field) == expected


def test_each_of_the_three_models_has_its_own_greedy_switch(tmp_path: Path) -> None:
    (only,) = read(tmp_path, document(do_sample=False)).requests
    assert (only.thinker.do_sample, only.talker.do_sample, only.talker.subtalker_do_sample) == (False, None, None)
    (only,) = read(tmp_path, document(talker_do_sample=False)).requests
    assert (only.thinker.do_sample, only.talker.do_sample, only.talker.subtalker_do_sample) == (None, False, None)


def test_a_temperature_of_zero_or_below_fp32_is_accepted_for_the_thinker(tmp_path: Path) -> None:
    assert [read(tmp_path, document(temperature=value)).requests[0].thinker.temperature for value in (0, 1e-45)] == [
        0,
        1e-45,
    ]


def test_a_top_p_of_one_or_more_is_accepted(tmp_path: Path) -> None:
    assert read(tmp_path, document(top_p=1.0)).requests[0].thinker.top_p == 1.0
    assert read(tmp_path, document(top_p=7)).requests[0].thinker.top_p == 7


def test_the_effective_seed_is_the_requests_own_or_the_files_plus_the_position(tmp_path: Path) -> None:
    file = read(tmp_path, document(request(), request(sampling_seed=5), request(), sampling_seed=100))
    assert [each.seed for each in file.requests] == [100, 5, 102]
    assert [each.talker.seed for each in file.requests] == [100, 5, 102]
    file = read(tmp_path, document(request(), request(), sampling_seed=2**64 - 1))
    assert [each.seed for each in file.requests] == [2**64 - 1, 0]


def test_the_flags_override_the_file_and_its_requests(tmp_path: Path) -> None:
    value = document(request(), request(max_generate_length=3), batch_size=2, max_generate_length=9)
    file = read(tmp_path, value, batch_size=16, max_generate_length=7)
    assert file.batch_size == 16
    assert [each.thinker.max_generate_length for each in file.requests] == [7, 7]


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"batch_size": 0}, "--batchSize is 0; give a whole number from 1 to 16"),
        ({"batch_size": 17}, "--batchSize is 17; give a whole number from 1 to 16"),
        ({"max_generate_length": 0}, "--maxGenerateLength is 0; give a whole number of at least 1"),
        ({"max_generate_length": -1}, "--maxGenerateLength is -1; give a whole number of at least 1"),
    ],
)
def test_a_flag_out_of_range_is_a_usage_error(tmp_path: Path, flags: dict[str, int], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        read(tmp_path, document(), **flags)


def test_a_stop_string_may_stand_alone_and_repeats_count_once(tmp_path: Path) -> None:
    assert read(tmp_path, document(request(stop="###"))).requests[0].stop == ("###",)
    assert read(tmp_path, document(request(stop=["b", "a", "b"]))).requests[0].stop == ("b", "a")
    assert read(tmp_path, document(request(stop=[]))).requests[0].stop == ()


def test_a_message_is_given_back_as_it_stood_and_its_text_is_joined() -> None:
    assert ChatMessage("user", "Hi.").to_json() == {"role": "user", "content": "Hi."}
    assert ChatMessage("user", ("Hi", ".")).to_json() == {
        "role": "user",
        "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "."}],
    }
    assert ChatMessage("user", ("Hi", ".")).text == "Hi."


LIMIT = 128 * 1024


def test_the_documented_limits_are_reached_but_not_passed(tmp_path: Path) -> None:
    long = "ä" * (LIMIT // 2)
    items = [{"type": "text", "text": long if index == 0 else "x"} for index in range(18)]
    file = read(tmp_path, document(request(message(items), *[message(long)] * 63), batch_size=16))
    assert len(file.requests[0].messages) == 64
    assert len(file.requests[0].messages[0].content) == 18


ABOVE: list[tuple[dict[str, Any], str]] = [
    (
        request(message("ä" * 65_536 + "x")),
        "messages[0].content holds 131073 bytes of UTF-8; the limit is 131072 (128 Ki",
    ),
    (
        request(message([{"type": "text", "text": "x" * (LIMIT + 1)}])),
        "messages[0].content[0].text holds 131073 bytes of UTF-8; the limit is 131072 (128 KiB), shorten it",
    ),
    (request(*[message()] * 65), "messages has 65 messages; the limit is 64, send fewer"),
    (
        request(message(), message([{"type": "text", "text": "x"}] * 19)),
        "messages[1].content has 19 items; the limit is 18, join some of them",
    ),
]


@pytest.mark.parametrize(("value", "error"), ABOVE)
def test_more_than_a_limit_allows_is_refused_by_name(tmp_path: Path, value: dict[str, Any], error: str) -> None:
    assert refusal(tmp_path, document(request(), value)).startswith(f"requests[1].{error}")


SHAPES: list[tuple[Any, str]] = [
    ([], "the request file must be a JSON object, found a list"),
    ({}, "requests is missing; add a list with at least one request"),
    ({"requests": []}, "requests is empty; write a list with at least one request"),
    ({"requests": [5]}, 'requests[0] is 5; write an object such as {"messages": [{"role": "user", '),
    ({"requests": [{}]}, 'requests[0].messages is missing; add a list such as [{"role": "user", '),
    ({"requests": [{"messages": []}]}, "requests[0].messages is empty; write a list such as "),
    ({"requests": [{"messages": ["Hi."]}]}, "requests[0].messages[0] is 'Hi.'; write an object such as "),
    ({"requests": [request({"content": "x"})]}, "requests[0].messages[0].role is missing; add 'system', 'user' or"),
    (
        {"requests": [request(message(role="tool"))]},
        "requests[0].messages[0].role is 'tool'; write 'system', 'user' or",
    ),
    ({"requests": [request({"role": "user"})]}, "requests[0].messages[0].content is missing; add a string or a list"),
]


@pytest.mark.parametrize(("value", "error"), SHAPES)
def test_a_file_of_the_wrong_shape_is_refused_with_the_place(tmp_path: Path, value: Any, error: str) -> None:
    assert refusal(tmp_path, value).startswith(error)


CONTENTS: list[tuple[Any, str]] = [
    ("", " is ''; write what the user says, or remove the message"),
    (" \n\u3000", r" is ' \n\u3000'; write what the user says"),
    ([], " is empty; write a string or a list of text items"),
    ([{"type": "text", "text": " "}], " is ' '; write what the user says"),
    (5, " is 5; write a string or a list of text items"),
    (None, " is null; write a string or a list of text items"),
    ({"type": "text", "text": "x"}, " is an object; write a string or a list of text items"),
    (["x"], "[0] is 'x'; write an object such as"),
    ([{"type": "text"}], "[0].text is missing; add a string"),
    ([{"type": "text", "text": 5}], "[0].text is 5; write a string"),
    ([{"type": "image", "image": "a.png"}], "[0].type is 'image'; write 'text'; image, audio and video input is not"),
    ([{"type": "audio", "audio": "a.wav"}], "[0].type is 'audio'; write 'text'; image, audio and video input is not"),
    ([{"type": "video", "frames": []}], "[0].type is 'video'; write 'text'; image, audio and video input is not"),
    ([{"text": "x"}], "[0].type is missing; add 'text'"),
    ("\ud800", r" is '\ud800', which holds half a character (a lone surrogate); write whole characters"),
]


@pytest.mark.parametrize(("content", "error"), CONTENTS)
def test_content_that_cannot_be_answered_is_refused_with_its_path(tmp_path: Path, content: Any, error: str) -> None:
    found = refusal(tmp_path, document(request(), request(message(content))))
    assert found.startswith(f"requests[1].messages[0].content{error}")


def test_a_request_needs_some_text_but_a_system_message_may_be_empty(tmp_path: Path) -> None:
    assert read(tmp_path, document(request(message("", "system"), message()))).requests[0].messages[0].text == ""
    found = refusal(tmp_path, document(request(message("", "system"))))
    assert found == "requests[0].messages holds no text at all; write what the user says"


WRONG = [
    *SPEECH,
    *cases("temperature", -0.1, "1", True, BIG, 1e39, [], None),
    *cases("top_k", -1, 1.5, "5", True, BIG, None),
    *cases("top_p", 0, -0.1, "1", False, BIG, 1e-40, None),
    *cases("max_generate_length", 0, -1, 1.5, 2**31, BIG, "5", True, None),
    *cases("talker_do_sample", 1, "no", None),
    *cases("apply_chat_template add_generation_prompt enable_thinking", 1, "no", None),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_an_impossible_value_is_refused_by_name_in_the_file_and_in_a_request(
    tmp_path: Path, field: str, value: Any
) -> None:
    for found, path in (
        (refusal(tmp_path, document(**{field: value})), field),
        (refusal(tmp_path, document(request(), request(**{field: value}))), f"requests[1].{field}"),
    ):
        assert found.startswith(f"{path} is ")
        assert "; write " in found
        assert len(found) < 250


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, "stop is null; write a string, or a list of strings"),
        (5, "stop is 5; write a string, or a list of strings"),
        ("", "stop is ''; write a string, or a list of strings, none of them empty"),
        (["a", ""], "stop[1] is ''; write a string that is not empty"),
        ("\ud800", r"stop is '\ud800', which holds half a character"),
        ([5], "stop[0] is 5; write a string that is not empty"),
    ],
)
def test_a_stop_that_could_never_or_always_end_is_refused(tmp_path: Path, value: Any, error: str) -> None:
    assert refusal(tmp_path, document(request(stop=value))).startswith(f"requests[0].{error}")


def test_streaming_is_refused_when_it_is_turned_on_and_its_sizes_are_warned_about(tmp_path: Path) -> None:
    found = refusal(tmp_path, document(streaming={"enable": True}))
    assert found.startswith("streaming.enable is true: streaming output is not in this release")
    file = read(tmp_path, document(streaming={"codec_chunk_frames": 25}))
    assert file.warnings[0].startswith(f"{file.path}: streaming.codec_chunk_frames is 25 and is ignored: streaming")
    assert refusal(tmp_path, document(streaming=True)) == "streaming is true; write an object"


def test_an_unknown_field_warns_with_the_nearest_known_name_or_is_refused(tmp_path: Path) -> None:
    value = document(request(temprature=1), max_generated_length=5)
    phrase = "is not a known field and is ignored (did you mean"
    file = read(tmp_path, value)
    assert file.warnings == (
        f"{file.path}: max_generated_length {phrase} max_generate_length?)",
        f"{file.path}: requests[0].temprature {phrase} temperature?)",
    )
    assert refusal(tmp_path, value, strict=True).startswith("max_generated_length is not a known field (did you mean m")


def test_a_field_of_another_level_is_named_with_its_owner(tmp_path: Path) -> None:
    file = read(tmp_path, document(stop="x"))
    assert file.warnings[0].endswith("is ignored (did you mean stop of a request?)")


_NAMES = st.sampled_from((
    "requests", "messages", "role", "content", "type", "text", "stop", "streaming", "enable", "speaker", "temperature",
    "top_p", "max_generate_length", "talker_top_k", "logit_bias", "apply_chat_template", "batch_size", "image",
    "language",
))  # fmt: skip
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None))
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.text(), inner, max_size=4)
)
_MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant"]) | _JSON, "content": st.text() | _JSON}
    ),
    max_size=2,
)
_REQUESTS = st.lists(
    st.fixed_dictionaries({"messages": _MESSAGES}, optional={"stop": st.lists(st.text()) | _JSON}) | _JSON, max_size=2
)
_DOCUMENTS = st.builds(
    lambda fields, requests: fields | {"requests": requests}, st.dictionaries(_NAMES, _JSON), _REQUESTS
)


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=_JSON | _DOCUMENTS, strict=st.booleans())
def test_any_json_gives_a_valid_file_or_one_input_file_error(tmp_path: Path, value: Any, strict: bool) -> None:
    path = tmp_path / "input.json"
    path.write_bytes(json.dumps(value).encode("utf-8"))
    try:
        file = read_omni_requests(path, strict)
    except InputFileError as fault:
        lines = [str(fault)]
    else:
        assert all(any(each.text.strip() for each in request.messages) for request in file.requests)
        lines = list(file.warnings)
    for line in lines:
        assert len(line.splitlines()) == 1
        line.encode("utf-8")
