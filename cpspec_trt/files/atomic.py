"""Writes that a reader, or a second writer, never sees half done.

A file or directory is written beside its final name and renamed when complete, so an interrupted
run leaves either what was there before or the whole new thing. What it had written so far stays
under a hidden temporary name (``.<name>.<random>.part``); the next run that writes the same name
removes it, and tells it from one that is still being written by the lock its writer holds.

A symbolic link is followed: what it names is replaced. What is there and is no regular file (a device, a pipe) is
never replaced but written to.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

_SUFFIX = ".part"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h


class _Lock(Enum):
    HELD = "held by us"
    TAKEN = "held by another process"
    NONE = "this file system has no locks"


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it onto ``path`` if the block succeeds, else remove it.

    A device or a pipe cannot be replaced: then ``path`` itself is yielded, for the block to write straight through.

    Raises:
        OSError: the place cannot be written, or ``path`` is a directory.
    """
    if is_special(path):
        yield path
        return
    target = _file_behind(path)
    with _temporary(target, directory=False) as temporary:
        yield temporary
        _flush(temporary)
        os.replace(temporary, target)


def check_writable(path: Path) -> None:
    """Find out whether ``atomic_file`` can write ``path``, creating missing parents and nothing else.

    Raises:
        OSError: as ``atomic_file`` would raise it.
    """
    if is_special(path):
        if not os.access(path, os.W_OK):
            raise _os_error(errno.EACCES, path)
        return
    with _temporary(_file_behind(path), directory=False):
        pass


def is_special(path: Path) -> bool:
    """Whether ``path`` is there and is neither a regular file nor a directory: a device, a pipe, a socket."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def write_text_atomic(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` (UTF-8) in one step."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield an empty temporary directory beside ``path``; swap it in as a whole if the block succeeds.

    Whatever ``path`` held before is removed. Two writers into one path each fill a directory of
    their own; the last to finish wins, and ``path`` never holds files of both. A symbolic link is
    followed: the directory it names is replaced.
    """
    path = path.resolve()
    with scratch_directory(path) as temporary:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        _swap(temporary, path)


@contextmanager
def scratch_directory(beside: Path) -> Iterator[Path]:
    """Yield an empty directory on the file system of ``beside`` and remove it afterwards."""
    with _temporary(beside, directory=True) as temporary:
        yield temporary


def _file_behind(path: Path) -> Path:
    """``path`` with its symbolic links followed, also where nothing is there yet."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise _os_error(errno.EISDIR, path)
    return target


def _os_error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


@contextmanager
def _temporary(path: Path, directory: bool) -> Iterator[Path]:
    """A locked temporary file or directory beside ``path``, removed at the end unless it was renamed away."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as fault:
        raise _os_error(errno.ENOTDIR, Path(fault.filename)) from None
    _remove_abandoned(path)
    temporary, lock = _create_locked(path, directory)
    try:
        yield temporary
    finally:
        _remove(temporary)
        os.close(lock)


def _create_locked(path: Path, directory: bool) -> tuple[Path, int]:
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX}")
        if directory:
            temporary.mkdir()
        else:
            temporary.touch(exist_ok=False)
        with suppress(FileNotFoundError):
            descriptor = os.open(temporary, os.O_RDONLY)
            if _try_lock(descriptor) is not _Lock.TAKEN and temporary.exists():
                return temporary, descriptor
            os.close(descriptor)  # another run took it for abandoned before the lock was held: start over


def _try_lock(descriptor: int) -> _Lock:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _Lock.TAKEN
    except OSError:
        return _Lock.NONE
    return _Lock.HELD


def _remove_abandoned(path: Path) -> None:
    """Remove the temporaries of ``path`` whose writer is gone (the system drops a dead process's locks)."""
    prefix = f".{path.name}."
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(prefix) and entry.name.endswith(_SUFFIX)]
    for name in names:
        with suppress(FileNotFoundError):
            descriptor = os.open(path.with_name(name), os.O_RDONLY)
            if _try_lock(descriptor) is _Lock.HELD:
                _remove(path.with_name(name))
            os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _swap(new: Path, path: Path) -> None:
    """Put ``new`` in the place of ``path``; what was there comes to lie under the name of ``new``, or vanishes.

    Raises:
        OSError: ``path`` is a file, a mount point, or cannot be renamed for another reason.
    """
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX}")
    try:
        while True:
            try:
                os.rename(new, path)  # succeeds if nothing, or an empty directory, is there
                return
            except OSError as fault:
                if fault.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
            if _exchange(new, path):
                return
            _remove(aside)
            with suppress(FileNotFoundError):  # another writer may just have moved it
                os.rename(path, aside)
    finally:
        _remove(aside)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names in one step (renameat2); False where the system or the file system cannot.

    Without it ``_swap`` needs two renames, and a run killed between them leaves no directory at all.
    """
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    status = renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    return bool(status == 0)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
