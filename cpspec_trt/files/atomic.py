"""Writes that a reader, or a second writer, never sees half done.

A file or directory is written beside its final name and renamed when complete, so an interrupted
run leaves either what was there before or the whole new thing (plus, at worst, a hidden temporary
that the next run removes).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it onto ``path`` if the block succeeds, else remove it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _use_default_mode(temporary)
        _flush(temporary)
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def write_text_atomic(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` (UTF-8) in one step."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield an empty temporary directory beside ``path``; swap it in as a whole if the block succeeds.

    Two writers into one path each build their own copy; the last to finish wins, and no reader
    finds files of both.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        _swap(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _swap(new: Path, path: Path) -> None:
    """Move ``path`` aside (if it exists) and ``new`` into its place; retry when another writer got there first."""
    while True:
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
        try:
            with suppress(FileNotFoundError):
                os.rename(path, aside / "previous")
            os.rename(new, path)
            return
        except OSError:
            if not new.exists() or not path.exists():
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _use_default_mode(path: Path) -> None:
    path.chmod(0o666 & ~_umask())  # mkstemp makes files that only their owner can read


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
