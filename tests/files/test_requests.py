"""Request files: what is accepted, merged, warned about and refused, and in which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cpspec_trt.errors import InputFileError, UsageError
from cpspec_trt.files.requests import Message, TtsRequestFile, read_tts_requests
from tests.files.wrong_values import SPEECH, cases


def request(content: Any = "Hello.", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": content}], **fields}


def document(*requests: Any, **fields: Any) -> dict[str, Any]:
    return {"requests": list(requests) or [request()], **fields}


def write(directory: Path, value: Any) -> Path:
    path = directory / "input.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def read(directory: Path, value: Any, strict: bool = False, batch_size: int | None = None) -> TtsRequestFile:
    return read_tts_requests(write(directory, value), strict, batch_size)


def refusal(directory: Path, value: Any, strict: bool = False) -> str:
    """The one-line error without the file name it must begin with."""
    path = write(directory, value)
    with pytest.raises(InputFileError) as caught:
        read_tts_requests(path, strict)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_a_file_of_the_reference_is_read_field_by_field(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        {
            "batch_size": 2,
            "apply_chat_template": True,
            "add_generation_prompt": True,
            "enable_thinking": False,
            "talker_temperature": 0.7,
            "talker_top_k": 40,
            "talker_top_p": 0.95,
            "repetition_penalty": 1.1,
            "subtalker_temperature": 0,
            "subtalker_top_k": 0,
            "subtalker_top_p": 0,
            "max_audio_length": 300,
            "speaker": "ryan",
            "language": "english",
            "instruct": "Calm.",
            "ref_audio": "",
            "ref_text": "",
            "requests": [request("One."), request("Two.", speaker="vivian", language="german", instruct="Fast.")],
        },
    )
    assert file.batch_size == 2
    assert file.warnings == ()
    first, second = file.requests
    assert (first.index, first.text, first.speaker, first.language, first.instruct) == (
        0,
        "One.",
        "ryan",
        "english",
        "Calm.",
    )
    assert (second.index, second.text, second.speaker, second.language, second.instruct) == (
        1,
        "Two.",
        "vivian",
        "german",
        "Fast.",
    )
    assert first.messages == (Message("assistant", "One."),)
    assert first.settings.talker_temperature == 0.7
    assert (first.settings.talker_top_k, first.settings.talker_top_p) == (40, 0.95)
    assert (first.settings.repetition_penalty, first.settings.max_audio_length) == (1.1, 300)


def test_absent_and_zero_sampling_values_stay_distinguishable(tmp_path: Path) -> None:
    sampling = read(tmp_path, document(talker_temperature=0, talker_top_k=0, subtalker_top_p=0)).requests[0].settings
    assert (sampling.talker_temperature, sampling.talker_top_k, sampling.subtalker_top_p) == (0, 0, 0)
    assert (sampling.talker_top_p, sampling.subtalker_temperature, sampling.subtalker_top_k) == (None, None, None)
    assert (sampling.repetition_penalty, sampling.max_audio_length) == (None, None)
    assert (sampling.do_sample, sampling.subtalker_do_sample) == (None, None)


@pytest.mark.parametrize(
    ("field", "for_all", "own"),
    [
        ("talker_temperature", 0.5, 0.25),
        ("talker_top_k", 5, 6),
        ("talker_top_p", 0.5, 0.25),
        ("repetition_penalty", 2.0, 3.0),
        ("subtalker_temperature", 0.5, 0.25),
        ("subtalker_top_k", 5, 6),
        ("subtalker_top_p", 0.5, 0.25),
        ("max_audio_length", 5, 6),
        ("do_sample", True, False),
        ("subtalker_do_sample", True, False),
    ],
)
def test_a_request_overrides_the_sampling_values_of_the_file(
    tmp_path: Path, field: str, for_all: Any, own: Any
) -> None:
    file = read(tmp_path, document(request(), request(**{field: own}), **{field: for_all}))
    assert [getattr(each.settings, field) for each in file.requests] == [for_all, own]


def test_the_prompt_layout_can_be_given_per_file_and_per_request(tmp_path: Path) -> None:
    file = read(tmp_path, document(request(), request(non_streaming_mode=True), non_streaming_mode=False))
    assert [each.non_streaming_mode for each in file.requests] == [False, True]
    assert read(tmp_path, document()).requests[0].non_streaming_mode is None


def test_an_empty_override_means_not_given(tmp_path: Path) -> None:
    file = read(tmp_path, document(request(speaker=""), request(), speaker="ryan"))
    assert [each.speaker for each in file.requests] == [None, "ryan"]


def test_the_effective_seed_is_the_requests_own_or_the_files_plus_the_position(tmp_path: Path) -> None:
    file = read(tmp_path, document(request(), request(sampling_seed=5), request(), sampling_seed=100))
    assert [each.settings.seed for each in file.requests] == [100, 5, 102]
    assert [each.settings.seed for each in read(tmp_path, document(request(), request())).requests] == [42, 43]


def test_a_seed_that_runs_past_64_bits_wraps_around(tmp_path: Path) -> None:
    file = read(tmp_path, document(request(), request(), sampling_seed=2**64 - 1))
    assert [each.settings.seed for each in file.requests] == [2**64 - 1, 0]


def test_text_items_are_joined_in_order(tmp_path: Path) -> None:
    items = [{"type": "text", "text": "Good "}, {"type": "text", "text": "morning."}]
    only = read(tmp_path, document(request(items))).requests[0]
    assert only.text == "Good morning."
    assert only.messages == (Message("assistant", "Good morning."),)


def test_messages_of_other_roles_are_kept_but_not_spoken_and_that_is_said(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Say it."}, {"role": "assistant", "content": "It."}]
    file = read(tmp_path, document({"messages": messages}))
    assert file.requests[0].text == "It."
    assert len(file.requests[0].messages) == 2
    assert file.warnings == (f"{file.path}: requests[0].messages[0] has role 'user' and is not spoken",)


def test_the_batch_size_flag_overrides_the_file(tmp_path: Path) -> None:
    assert read(tmp_path, document(batch_size=2), batch_size=16).batch_size == 16
    assert read(tmp_path, document()).batch_size == 1


@pytest.mark.parametrize("size", [0, -1, 17])
def test_a_batch_size_flag_out_of_range_is_a_usage_error(tmp_path: Path, size: int) -> None:
    with pytest.raises(UsageError, match=f"--batchSize is {size}; give a whole number from 1 to 16"):
        read(tmp_path, document(), batch_size=size)


def test_a_whole_number_written_as_a_float_is_a_whole_number(tmp_path: Path) -> None:
    settings = read(tmp_path, document(talker_top_k=50.0, sampling_seed=7.0)).requests[0].settings
    assert (settings.talker_top_k, settings.seed) == (50, 7)
    assert isinstance(settings.talker_top_k, int)


SHAPES: list[tuple[Any, str]] = [
    ([], "the request file must be a JSON object, found a list"),
    ({}, "requests is missing; add a list with at least one request"),
    ({"requests": []}, "requests is empty; write a list with at least one request"),
    ({"requests": {}}, "requests is an object; write a list with at least one request"),
    ({"requests": None}, "requests is null; write a list with at least one request"),
    ({"requests": [request(), 5]}, 'requests[1] is 5; write an object such as {"messages": '),
    ({"requests": [{}]}, 'requests[0].messages is missing; add a list such as [{"role": "assistant", '),
    ({"requests": [{"messages": []}]}, "requests[0].messages is empty; write a list such as "),
    ({"requests": [{"messages": "Hello."}]}, "requests[0].messages is 'Hello.'; write a list such as "),
    ({"requests": [{"messages": ["Hello."]}]}, "requests[0].messages[0] is 'Hello.'; write an object such as "),
    ({"requests": [{"messages": [{"content": "x"}]}]}, "requests[0].messages[0].role is missing; add a string"),
    ({"requests": [{"messages": [{"role": 1, "content": "x"}]}]}, "requests[0].messages[0].role is 1; write a string"),
    (
        {"requests": [{"messages": [{"role": "assistant"}]}]},
        "requests[0].messages[0].content is missing; add a string or a list of text items",
    ),
    (
        {"requests": [{"messages": [{"role": "user", "content": "x"}]}]},
        "requests[0].messages has no message with role 'assistant' (found 'user'); the spoken text is the assistant "
        "message's content",
    ),
    (
        {"requests": [{"messages": [{"role": "assistant", "content": "x"}] * 2}]},
        "requests[0].messages has 2 messages with role 'assistant'; keep the one to be spoken",
    ),
]


@pytest.mark.parametrize(("value", "message"), SHAPES)
def test_a_file_of_the_wrong_shape_is_refused_with_the_place(tmp_path: Path, value: Any, message: str) -> None:
    assert refusal(tmp_path, value).startswith(message)


CONTENTS: list[tuple[Any, str]] = [
    ("", " is ''; write the text to be spoken"),
    (" \n\t", r" is ' \n\t'; write the text to be spoken"),
    ("\u3000\u2003", r" is '\u3000\u2003'; write the text to be spoken"),
    ([], " is ''; write the text to be spoken"),
    ([{"type": "text", "text": " "}], " is ' '; write the text to be spoken"),
    (5, " is 5; write a string or a list of text items"),
    (None, " is null; write a string or a list of text items"),
    ({"type": "text", "text": "x"}, " is an object; write a string or a list of text items"),
    (["x"], "[0] is 'x'; write an object such as"),
    ([{"type": "text", "text": "x"}, {"type": "text"}], "[1].text is missing; add a string"),
    ([{"type": "text", "text": 5}], "[0].text is 5; write a string"),
    ([{"type": "image", "image": "a.png"}], "[0].type is 'image'; write 'text', the only kind of content"),
    ([{"text": "x"}], "[0].type is missing; add 'text'"),
    ("\ud800", r" is '\ud800', which holds half a character (a lone surrogate); write whole characters"),
]


@pytest.mark.parametrize(("content", "message"), CONTENTS)
def test_content_that_cannot_be_spoken_is_refused_with_its_path(tmp_path: Path, content: Any, message: str) -> None:
    found = refusal(tmp_path, document(request(), request(), request(content)))
    assert found.startswith(f"requests[2].messages[0].content{message}")


WRONG = [
    *SPEECH,
    *cases("non_streaming_mode", 1, "no", None),
    *cases("language instruct", 1, ["ryan"], None, "\udfff"),
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


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, literal: str) -> None:
    path = tmp_path / "input.json"
    path.write_text(f'{{"talker_temperature": {literal}, "requests": [{json.dumps(request())}]}}')
    with pytest.raises(InputFileError, match="finite"):
        read_tts_requests(path, strict=False)


@pytest.mark.parametrize("size", [0, -1, 17, 1.5, "2", True, None])
def test_a_batch_size_out_of_range_is_refused(tmp_path: Path, size: Any) -> None:
    assert refusal(tmp_path, document(batch_size=size)).endswith(
        "write a whole number from 1 to 16" + (", or remove the field to use the default" if size is None else "")
    )


def test_a_long_value_is_shortened_in_the_message(tmp_path: Path) -> None:
    assert "… (5002 characters); write " in refusal(tmp_path, document(talker_top_k="x" * 5000))


def test_an_unknown_field_warns_with_the_nearest_known_name(tmp_path: Path) -> None:
    items = [{"type": "text", "text": "Hi.", "txt": 1}]
    messages = [{"role": "assistant", "content": items, "rolle": 1}]
    file = read(tmp_path, {"requests": [{"messages": messages, "speeker": "ryan"}], "talker_temprature": 1})
    phrase = "is not a known field and is ignored (did you mean"
    assert file.warnings == (
        f"{file.path}: talker_temprature {phrase} talker_temperature?)",
        f"{file.path}: requests[0].speeker {phrase} speaker?)",
        f"{file.path}: requests[0].messages[0].rolle {phrase} role?)",
        f"{file.path}: requests[0].messages[0].content[0].txt {phrase} text?)",
    )


def test_a_field_of_another_level_is_named_with_its_owner(tmp_path: Path) -> None:
    file = read(tmp_path, document(request(batch_size=2)))
    assert file.warnings[0].endswith("is ignored (did you mean batch_size of the file?)")


def test_strict_refuses_an_unknown_field(tmp_path: Path) -> None:
    message = refusal(tmp_path, document(request(speeker="ryan")), strict=True)
    assert message.startswith("requests[0].speeker is not a known field (did you mean speaker?); rename")
    assert read(tmp_path, document(), strict=True).warnings == ()


def test_an_unprintable_field_name_stays_on_one_line(tmp_path: Path) -> None:
    warning = read(tmp_path, document(**{"a\nb\u2028c\ud800": 1})).warnings[0]
    assert len(warning.splitlines()) == 1
    warning.encode("utf-8")


FAULTY_FILES: list[tuple[bytes, str]] = [
    (b"", "not JSON"),
    (b"requests: []", "not JSON"),
    (b'{"requests": [}', "not JSON: .* at line 1 column 15"),
    (b'\xef\xbb\xbf{"requests": []}', "byte order mark"),
    (b'{"speaker": "\xff"}', "not UTF-8"),
    (b'{"speaker": "a", "speaker": "b"}', "'speaker' stands twice"),
    (b'{"requests": ' + b"[" * 100_000, "nested too deeply"),
    (b'{"batch_size": ' + b"9" * 5000 + b"}", "not JSON this program can hold"),
]


@pytest.mark.parametrize(("raw", "message"), FAULTY_FILES)
def test_a_file_that_is_not_plain_json_is_one_clear_line(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "input.json"
    path.write_bytes(raw)
    with pytest.raises(InputFileError, match=message) as caught:
        read_tts_requests(path, strict=False)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"nowhere\.json: the request file does not exist"):
        read_tts_requests(tmp_path / "nowhere.json", strict=False)
    with pytest.raises(InputFileError, match="is a directory"):
        read_tts_requests(tmp_path, strict=False)


_NAMES = st.sampled_from(
    [
        "requests",
        "messages",
        "role",
        "content",
        "type",
        "text",
        "speaker",
        "language",
        "instruct",
        "sampling_seed",
        "talker_top_k",
        "talker_top_p",
        "subtalker_temperature",
        "do_sample",
        "max_audio_length",
        "batch_size",
        "ref_audio",
        "streaming",
        "temperature",
    ]
)
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.just("assistant")
)
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.text(), inner, max_size=4)
)
_MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.just("assistant") | _JSON, "content": st.text() | _JSON}), max_size=2
)
_REQUESTS = st.lists(st.fixed_dictionaries({"messages": _MESSAGES}) | _JSON, max_size=2)
_DOCUMENTS = st.builds(
    lambda fields, requests: fields | {"requests": requests}, st.dictionaries(_NAMES, _JSON), _REQUESTS
)


def read_or_refuse(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
    for strict in (False, True):
        try:
            file = read_tts_requests(path, strict)
        except InputFileError as fault:
            lines = [str(fault)]
        else:
            assert all(request.text.strip() for request in file.requests)
            lines = list(file.warnings)
        for line in lines:
            assert len(line.splitlines()) == 1
            line.encode("utf-8")


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary() | st.text().map(lambda text: text.encode("utf-8")))
@example(raw=b'{"requests":[{"messages":[{"role":"assistant","content":"Hi."}]}]}')
def test_any_bytes_give_a_valid_file_or_one_input_file_error(tmp_path: Path, raw: bytes) -> None:
    read_or_refuse(tmp_path / "input.json", raw)


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=_JSON | _DOCUMENTS)
def test_any_json_gives_a_valid_file_or_one_input_file_error(tmp_path: Path, value: Any) -> None:
    read_or_refuse(tmp_path / "input.json", json.dumps(value).encode("utf-8"))
