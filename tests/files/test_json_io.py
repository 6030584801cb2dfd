"""Strict JSON: one clear line for everything that is not a plain object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpspec_trt.errors import EngineError, InputFileError
from cpspec_trt.files import json_io
from cpspec_trt.files.json_io import read_json, write_json_atomic

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def refusal(path: Path) -> str:
    with pytest.raises(InputFileError) as caught:
        read_json(path, InputFileError, "request file")
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


@given(value=st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("json") / "value.json"
    write_json_atomic(path, value)
    assert read_json(path, InputFileError, "request file") == value


def test_text_is_written_readable_and_ends_with_a_newline(tmp_path: Path) -> None:
    write_json_atomic(tmp_path / "value.json", {"text": "你好"})
    assert (tmp_path / "value.json").read_text(encoding="utf-8") == '{\n  "text": "你好"\n}\n'


def test_nan_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json_atomic(tmp_path / "value.json", {"rate": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON: Expecting value at line 1 column 1"),
        (b'{"a": 1,\n "b" 2}', "not JSON: Expecting ':' delimiter at line 2 column 6"),
        (b'{"a": 1} tail', "not JSON: Extra data at line 1 column 10"),
        (b'{"a": NaN}', "NaN is not JSON; write a finite number"),
        (b'{"a": [-Infinity]}', "-Infinity is not JSON; write a finite number"),
        (b'{"a": 1, "a": 2}', "the key 'a' stands twice in one object; keep one of them"),
        (b'{"x": {"a": 1, "a": 1}}', "the key 'a' stands twice in one object; keep one of them"),
        (b"[1, 2]", "the request file must be a JSON object, found a list"),
        (b'"text"', "the request file must be a JSON object, found a string"),
        (b"true", "the request file must be a JSON object, found a boolean"),
        (b"1", "the request file must be a JSON object, found a number"),
        (b"null", "the request file must be a JSON object, found null"),
        (b'\xef\xbb\xbf{"a": 1}', "the request file starts with a byte order mark; save it as UTF-8 without one"),
        (b'{"a": "\xff"}', "the request file is not UTF-8 (byte 7); save it as UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "the request file is not UTF-8 (byte 0); save it as UTF-8"),
        (b'{"a":' + b"[" * 100_000, "the request file is nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON this program can hold: "),
    ],
)
def test_anything_else_than_a_plain_object_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "input.json"
    path.write_bytes(content)
    assert refusal(path).startswith(message)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent.json") == "the request file does not exist"
    assert refusal(tmp_path) == "is a directory, expected the request file"
    (tmp_path / "file").write_text("x")
    assert refusal(tmp_path / "file" / "inner.json") == "cannot read the request file: Not a directory"


def test_a_file_too_large_to_be_meant_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_io, "MAX_JSON_BYTES", 1 << 20)
    path = tmp_path / "input.json"
    with path.open("wb") as stream:
        stream.truncate((1 << 20) + 1)
    assert refusal(path) == "the request file is larger than 1 MiB; split it into several files"


def test_the_error_is_of_the_kind_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="the engine manifest does not exist"):
        read_json(tmp_path / "absent", EngineError, "engine manifest")
