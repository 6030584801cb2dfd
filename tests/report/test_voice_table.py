from __future__ import annotations

import io

import pytest

from cpspec_trt.report.voice_table import print_voices
from cpspec_trt.text.voice_list import VoiceName

NAMES = (
    VoiceName("speaker", "eric", "speaks sichuan_dialect if the language is auto or chinese"),
    VoiceName("speaker", "[red]ryan[/red]", ""),
    VoiceName("language", "auto", "the default"),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    print_voices(NAMES)
    return stream.getvalue().splitlines()


def test_without_a_terminal_every_name_is_one_line_of_three_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(io.StringIO(), monkeypatch)
    assert [tuple(line.split("\t")) for line in lines] == [(found.kind, found.name, found.note) for found in NAMES]


def test_on_a_terminal_the_kind_stands_once_and_names_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.split() for line in printed(Terminal(), monkeypatch) if line.strip()]
    assert lines[0] == ["name", "note"]
    assert lines[2] == ["speaker", "eric", *NAMES[0].note.split()]
    assert lines[3] == ["[red]ryan[/red]"]
    assert lines[4] == ["language", "auto", "the", "default"]
    assert len(lines) == 5
