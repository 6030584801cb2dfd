"""Directories that are replaced as a whole: what is in them is looked at first."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.files.placement import (
    ENGINE,
    EXPORT,
    Kind,
    check_apart,
    check_replaceable,
    keep_foreign_files,
    place,
    unmade_by_failure,
    written_to,
)

KINDS = pytest.mark.parametrize("kind", [ENGINE, EXPORT], ids=lambda kind: kind.name)


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


def filled(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).write_text("old")
    return directory


@KINDS
def test_new_empty_and_earlier_directories_and_those_with_files_of_the_user_are_replaceable(
    tmp_path: Path, kind: Kind
) -> None:
    check_replaceable(tmp_path / "new" / "deeper", kind)
    check_replaceable(filled(tmp_path / "empty"), kind)
    check_replaceable(filled(tmp_path / "notes", "notes.txt"), kind)
    check_replaceable(filled(tmp_path / "earlier", kind.mark, "config.json"), kind)


@KINDS
@pytest.mark.parametrize("inner", ["talker", ".git", ".cache"])
def test_a_directory_that_holds_directories_is_never_replaced_hidden_ones_included(
    tmp_path: Path, kind: Kind, inner: str
) -> None:
    filled(tmp_path / "root", kind.mark, "config.json")
    (tmp_path / "root" / inner).mkdir()
    with pytest.raises(UsageError, match=rf"holds directories \({inner}\).*replaced as a whole"):
        check_replaceable(tmp_path / "root", kind)


@KINDS
def test_a_link_to_a_directory_counts_as_one(tmp_path: Path, kind: Kind) -> None:
    filled(tmp_path / "root")
    (tmp_path / "root" / "disk").symlink_to(tmp_path)
    with pytest.raises(UsageError, match=r"holds directories \(disk\)"):
        check_replaceable(tmp_path / "root", kind)


def test_of_many_directories_the_first_three_are_named(tmp_path: Path) -> None:
    for name in ("talker", "code2wav", "a", "b"):
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match=r"holds directories \(a, b, code2wav, …\)"):
        check_replaceable(tmp_path, ENGINE)


def test_the_root_of_the_file_system_is_never_replaced() -> None:
    with pytest.raises(UsageError, match="/: holds directories"):
        check_replaceable(Path("/"), ENGINE)


@KINDS
def test_a_file_in_the_place_of_the_directory_or_above_it_is_refused(tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "here").write_text("x")
    with pytest.raises(UsageError, match=f"here: is a file; choose a directory for the {kind.name}"):
        check_replaceable(tmp_path / "here", kind)
    with pytest.raises(UsageError, match=r"here: is a file, so .*here/talker cannot be made"):
        check_replaceable(tmp_path / "here" / "talker", kind)


@pytest.mark.parametrize(("kind", "other"), [(ENGINE, EXPORT), (EXPORT, ENGINE)])
def test_an_engine_never_replaces_an_export_nor_an_export_an_engine(tmp_path: Path, kind: Kind, other: Kind) -> None:
    filled(tmp_path / "there", other.mark, "config.json")
    with pytest.raises(UsageError, match=rf"there: holds an {other.name} \({other.mark}\)"):
        check_replaceable(tmp_path / "there", kind)


@KINDS
def test_the_config_of_something_else_is_not_overwritten(tmp_path: Path, kind: Kind) -> None:
    filled(tmp_path / "checkpoint", "config.json", "model.safetensors")
    with pytest.raises(UsageError, match=rf"has a config.json but no {kind.mark}, so it holds something else"):
        check_replaceable(tmp_path / "checkpoint", kind)


@KINDS
def test_files_that_were_not_written_here_are_taken_over_and_stale_ones_are_not(tmp_path: Path, kind: Kind) -> None:
    old = filled(tmp_path / "old", kind.mark, "voice_map.json", "config.json", "stale.safetensors", "damaged.bin")
    new = filled(tmp_path / "new", "config.json", "damaged.bin")
    (new / "damaged.bin").write_text("new")
    keep_foreign_files(old, new, kind, {kind.mark, "config.json", "stale.safetensors"})
    assert sorted(path.name for path in new.iterdir()) == ["config.json", "damaged.bin", "voice_map.json"]
    assert (new / "damaged.bin").read_text() == "new"


@KINDS
def test_a_file_of_the_user_is_never_overwritten(tmp_path: Path, kind: Kind) -> None:
    old, new = filled(tmp_path / "old", "vocabulary.txt"), filled(tmp_path / "new", "vocabulary.txt")
    with pytest.raises(UsageError, match=rf"old/vocabulary.txt: the {kind.name} has a file of this name too"):
        keep_foreign_files(old, new, kind, set())


def test_nothing_is_taken_over_from_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    keep_foreign_files(tmp_path / "absent", tmp_path, ENGINE, set())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("export", "engine"), [("a", "a"), ("a", "a/talker"), ("a/llm", "a"), ("a", "link")])
def test_an_export_and_its_engine_lie_in_different_directories(tmp_path: Path, export: str, engine: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(UsageError, match="give --engineDir and --onnxDir different directories"):
        check_apart(tmp_path / export, tmp_path / engine)


def test_neighbours_are_apart(tmp_path: Path) -> None:
    check_apart(tmp_path / "root" / "llm", tmp_path / "root" / "talker")


def test_an_error_of_the_system_names_the_directory_and_not_a_temporary(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught, written_to(tmp_path / "talker", "engine"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / ".talker.0a1b.part" / "llm.onnx"))
    message = f"{tmp_path}/talker: the engine cannot be written: No space left on device; check the place and its space"
    assert str(caught.value) == message


@pytest.mark.parametrize("kept", [False, True])
def test_directories_that_a_failed_block_made_are_taken_back_if_they_are_empty(tmp_path: Path, kept: bool) -> None:
    def fail(directory: Path) -> None:
        directory.mkdir(parents=True)
        if kept:
            (directory.parent / "file").write_text("of somebody else")
        raise KeyboardInterrupt

    (tmp_path / "there").mkdir()
    with pytest.raises(KeyboardInterrupt), unmade_by_failure(tmp_path / "there" / "a" / "b"):
        fail(tmp_path / "there" / "a" / "b")
    expected = ["there", "there/a", "there/a/file"] if kept else ["there"]
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == expected


def test_what_was_there_before_and_what_a_block_made_that_succeeds_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(EngineError), unmade_by_failure(tmp_path / "there"):
        raise EngineError("no")
    with unmade_by_failure(tmp_path / "new"):
        (tmp_path / "new").mkdir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "there"]
