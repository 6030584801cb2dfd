"""Atomic writes: what a reader, a second writer or a killed run can see."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cpspec_trt.files import atomic
from cpspec_trt.files.atomic import (
    atomic_directory,
    atomic_file,
    check_writable,
    is_special,
    scratch_directory,
    write_text_atomic,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def umask_027() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def fill(path: Path, text: str) -> None:
    with atomic_directory(path) as new:
        (new / "inner").mkdir()
        (new / "inner" / "value").write_text(text)


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "result.json"
    with atomic_file(target) as temporary:
        temporary.write_text("half")
        assert not target.exists()
        temporary.write_text("whole")
    assert target.read_text() == "whole"
    assert names(target.parent) == ["result.json"]


def test_a_failed_write_leaves_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    write_text_atomic(target, "old")

    def fail() -> None:
        with atomic_file(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError, match="on fire"):
        fail()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["result.json"]


def test_text_is_written_as_utf8(tmp_path: Path) -> None:
    write_text_atomic(tmp_path / "text", "你好 ü\n")
    assert (tmp_path / "text").read_bytes() == "你好 ü\n".encode()


@pytest.mark.usefixtures("umask_027")
def test_files_and_directories_get_the_users_default_mode(tmp_path: Path) -> None:
    write_text_atomic(tmp_path / "file", "x")
    fill(tmp_path / "directory", "x")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "directory").stat().st_mode) == 0o750


def test_a_directory_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "engine"
    fill(target, "old")
    (target / "stale").write_text("x")
    with atomic_directory(target) as new:
        (new / "value").write_text("new")
        assert names(target) == ["inner", "stale"]
    assert names(target) == ["value"]
    assert names(tmp_path) == ["engine"]


def test_a_failed_directory_leaves_the_old_one_and_no_temporary(tmp_path: Path) -> None:
    fill(tmp_path / "engine", "old")

    def fail() -> None:
        with atomic_directory(tmp_path / "engine") as new:
            (new / "half").write_text("x")
            raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError, match="on fire"):
        fail()
    assert names(tmp_path) == ["engine"]
    assert names(tmp_path / "engine") == ["inner"]


def test_of_two_writers_the_last_to_finish_wins_whole(tmp_path: Path) -> None:
    target = tmp_path / "engine"
    with atomic_directory(target) as slow:
        (slow / "slow").write_text("x")
        with atomic_directory(target) as fast:
            (fast / "fast").write_text("x")
        assert names(target) == ["fast"]
    assert names(target) == ["slow"]
    assert names(tmp_path) == ["engine"]


def test_without_an_exchange_two_renames_do_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "_exchange", lambda first, second: False)
    test_a_directory_is_replaced_as_a_whole(tmp_path / "one")
    test_of_two_writers_the_last_to_finish_wins_whole(tmp_path / "two")


def test_a_link_to_a_directory_stays_a_link(tmp_path: Path) -> None:
    fill(tmp_path / "disk", "old")
    (tmp_path / "engine").symlink_to("disk", target_is_directory=True)
    fill(tmp_path / "engine", "new")
    assert (tmp_path / "engine").is_symlink()
    assert (tmp_path / "disk" / "inner" / "value").read_text() == "new"


@pytest.mark.parametrize("there", [True, False])
def test_a_link_to_a_file_stays_a_link_and_what_it_names_is_written(tmp_path: Path, there: bool) -> None:
    (tmp_path / "disk").mkdir()
    if there:
        (tmp_path / "disk" / "value").write_text("old")
    (tmp_path / "middle").symlink_to("disk/value")
    (tmp_path / "result").symlink_to(tmp_path / "middle")
    check_writable(tmp_path / "result")
    write_text_atomic(tmp_path / "result", "new")
    assert (tmp_path / "result").is_symlink()
    assert (tmp_path / "middle").is_symlink()
    assert (tmp_path / "disk" / "value").read_text() == "new"
    assert names(tmp_path / "disk") == ["value"]
    assert names(tmp_path) == ["disk", "middle", "result"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to("pipe")
    check_writable(tmp_path / "link")
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text)
        write_text_atomic(tmp_path / "link", "through")
        assert read.result(timeout=30) == "through"
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert names(tmp_path) == ["link", "pipe"]


def test_a_device_stays_a_device() -> None:
    ours, theirs = pty.openpty()  # a terminal: a device that a test may write to
    device = Path(os.ttyname(theirs))
    check_writable(device)
    write_text_atomic(device, "shown")
    assert os.read(ours, 100) == b"shown"
    assert is_special(device)
    os.close(ours)
    os.close(theirs)


def test_an_open_descriptor_can_be_a_target(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    write_text_atomic(Path(f"/dev/fd/{writer}"), "piped")
    assert os.read(reader, 100) == b"piped"
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("kind", ["directory", "link to a directory"])
def test_a_directory_is_never_replaced_by_a_file(tmp_path: Path, kind: str) -> None:
    (tmp_path / "engine").mkdir()
    if kind != "directory":
        (tmp_path / "engine").rename(tmp_path / "disk")
        (tmp_path / "engine").symlink_to("disk")
    before = names(tmp_path)
    for write in (check_writable, lambda path: write_text_atomic(path, "x")):
        with pytest.raises(IsADirectoryError, match="engine"):
            write(tmp_path / "engine")
    assert names(tmp_path) == before


def test_asking_whether_a_file_can_be_written_leaves_it_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    check_writable(tmp_path / "old")
    check_writable(tmp_path / "deep" / "er" / "new")
    assert (tmp_path / "old").read_text() == "old"
    assert names(tmp_path) == ["deep", "old"]
    assert names(tmp_path / "deep" / "er") == []


def test_a_place_that_cannot_be_written_is_known_before_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    faults = {
        tmp_path / "file" / "inside": "Not a directory",
        tmp_path / "file" / "deep" / "inside": "Not a directory",
        tmp_path / ("x" * 250): "File name too long",  # too long for its temporary
        Path("/proc/none/inside"): "No such file",
    }
    for path, reason in faults.items():
        for write in (check_writable, lambda path: write_text_atomic(path, "x")):
            with pytest.raises(OSError, match=reason):
                write(path)


def test_a_file_is_never_replaced_by_a_directory(tmp_path: Path) -> None:
    (tmp_path / "engine").write_text("precious")
    with pytest.raises(OSError, match="Not a directory"):
        fill(tmp_path / "engine", "new")
    assert (tmp_path / "engine").read_text() == "precious"
    assert names(tmp_path) == ["engine"]


def test_a_directory_that_cannot_be_renamed_is_an_error_and_not_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, rename = tmp_path / "mount", os.rename
    fill(target, "old")

    def busy(source: Path, destination: Path) -> None:
        if Path(source) == target:
            raise OSError(16, "Device or resource busy", str(source))
        rename(source, destination)

    monkeypatch.setattr(atomic, "_exchange", lambda first, second: False)
    monkeypatch.setattr(os, "rename", busy)
    with pytest.raises(OSError, match="busy"):
        fill(target, "new")
    assert (target / "inner" / "value").read_text() == "old"


def test_a_scratch_directory_lies_beside_its_target_and_goes_away(tmp_path: Path) -> None:
    with scratch_directory(tmp_path / "engines" / "onnx") as scratch:
        (scratch / "model").write_text("x")
        assert scratch.parent == tmp_path / "engines"
    assert names(tmp_path / "engines") == []


def killed_while_writing(statement: str) -> None:
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from cpspec_trt.files.atomic import *\n"
        f"with {statement} as temporary: os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL


def test_what_a_killed_run_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    killed_while_writing(f"atomic_file(Path({str(tmp_path / 'result')!r}))")
    killed_while_writing(f"atomic_directory(Path({str(tmp_path / 'engine')!r}))")
    assert len(names(tmp_path)) == 2
    write_text_atomic(tmp_path / "result", "x")
    assert len(names(tmp_path)) == 2  # the directory's temporary is not this file's
    fill(tmp_path / "engine", "x")
    assert names(tmp_path) == ["engine", "result"]


def test_what_a_living_run_is_writing_is_left_alone(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "result") as temporary:
        write_text_atomic(tmp_path / "result", "quick")
        temporary.write_text("slow")
    assert (tmp_path / "result").read_text() == "slow"


def test_on_a_file_system_without_locks_everything_works_and_nothing_is_taken_for_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / ".engine.0123abcd.part").mkdir()
    fill(tmp_path / "engine", "x")
    assert names(tmp_path) == [".engine.0123abcd.part", "engine"]


def test_a_temporary_that_was_taken_for_abandoned_too_early_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    stolen: list[Path] = []

    def steal_first(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        if not stolen:
            stolen.extend(tmp_path.iterdir())
            stolen[0].unlink()

    monkeypatch.setattr(fcntl, "flock", steal_first)
    write_text_atomic(tmp_path / "result", "whole")
    assert len(stolen) == 1
    assert (tmp_path / "result").read_text() == "whole"
    assert names(tmp_path) == ["result"]
