"""An engine directory is replaced as a whole, so the builder looks at what is in it first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cpspec_trt.builder.placement import check_replaceable, keep_foreign_files, place
from cpspec_trt.errors import UsageError


def test_a_link_shares_the_bytes_and_a_copy_does_not(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"weights")
    place(source, tmp_path / "linked", link=True)
    place(source, tmp_path / "copied", link=False)
    assert (tmp_path / "linked").stat().st_ino == source.stat().st_ino
    assert (tmp_path / "copied").stat().st_ino != source.stat().st_ino
    assert (tmp_path / "copied").read_bytes() == b"weights"


def test_where_links_are_impossible_the_bytes_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    source = tmp_path / "source"
    source.write_bytes(b"weights")
    place(source, tmp_path / "target", link=True)
    assert (tmp_path / "target").read_bytes() == b"weights"
    assert (tmp_path / "target").stat().st_ino != source.stat().st_ino


def test_new_and_empty_directories_and_flat_ones_are_replaceable(tmp_path: Path) -> None:
    check_replaceable(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    check_replaceable(tmp_path / "empty")
    (tmp_path / "empty" / "notes.txt").write_text("mine")
    check_replaceable(tmp_path / "empty")


def test_a_directory_of_directories_is_never_replaced(tmp_path: Path) -> None:
    for name in ("talker", "code2wav", "a", "b"):
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match=r"holds directories \(a, b, code2wav, …\).*replaced as a whole"):
        check_replaceable(tmp_path)


def test_the_root_of_the_file_system_is_never_replaced() -> None:
    with pytest.raises(UsageError, match="/: holds directories"):
        check_replaceable(Path("/"))


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "engine").write_text("x")
    with pytest.raises(UsageError, match="engine: is a file; choose a directory"):
        check_replaceable(tmp_path / "engine")


def test_files_that_no_build_wrote_are_taken_over(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    for name in ("voice_map.json", "config.json", "llm.onnx"):
        (old / name).write_text("old")
    (new / "llm.onnx").write_text("new")
    keep_foreign_files(old, new)
    assert {path.name: path.read_text() for path in new.iterdir()} == {"voice_map.json": "old", "llm.onnx": "new"}


def test_nothing_is_taken_over_from_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    keep_foreign_files(tmp_path / "absent", tmp_path)
    assert list(tmp_path.iterdir()) == []
