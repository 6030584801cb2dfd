"""Which directories a build or an export may replace, and which files of the old one go into the new one.

Both write directories that are swapped in as a whole. So what lies in the old one is looked at first: the
files of an earlier build or export are dropped, everybody else's are kept, and what could be neither is refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.files.manifest import MANIFEST_NAME

MODEL_NAME = "model.onnx"
CONFIG_NAME = "config.json"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of directory that this package writes: what it is called, and the file by which one is known."""

    name: str
    mark: str


ENGINE = Kind("engine", MANIFEST_NAME)
EXPORT = Kind("export", MODEL_NAME)


def place(source: Path, target: Path, link: bool) -> None:
    """Make ``target`` a copy of ``source``, or with ``link`` a second name of the same bytes where that is possible."""
    if link:
        try:
            os.link(source.resolve(), target)
            return
        except OSError:  # another file system, or one without links
            pass
    shutil.copyfile(source, target)


def check_replaceable(directory: Path, kind: Kind) -> None:
    """Refuse a directory that must not be replaced as a whole by one of ``kind``.

    Raises:
        UsageError: it, or a directory above it, is a file; it holds directories, which neither a build nor an export
            writes; it is of the other kind; or it has a ``config.json`` that belongs to something else.
    """
    for parent in (directory, *directory.parents):
        if parent.exists() and not parent.is_dir():
            found = "is a file" if parent == directory else f"is a file, so {directory} cannot be made"
            raise UsageError(f"{parent}: {found}; choose a directory for the {kind.name}")
    if not directory.exists():
        return
    inner = sorted(path.name for path in directory.iterdir() if path.is_dir())
    if inner or directory.resolve() == Path(directory.resolve().anchor):
        found = f" ({', '.join(inner[:3])}{', …' if len(inner) > 3 else ''})" if inner else ""
        raise UsageError(
            f"{directory}: holds directories{found}, and an {kind.name} directory is replaced as a whole; "
            f"choose one of its own, for example {directory / 'talker'}"
        )
    other = EXPORT if kind == ENGINE else ENGINE
    if (directory / other.mark).exists():
        raise UsageError(
            f"{directory}: holds an {other.name} ({other.mark}), which an {kind.name} would replace; "
            f"choose another directory for the {kind.name}"
        )
    if (directory / CONFIG_NAME).exists() and not (directory / kind.mark).exists():
        raise UsageError(
            f"{directory}: has a {CONFIG_NAME} but no {kind.mark}, so it holds something else than an {kind.name}; "
            "choose another directory or empty it"
        )


def check_apart(export: Path, engine: Path) -> None:
    """Refuse an export and an engine that would lie in one directory, or one inside the other.

    Raises:
        UsageError: names both.
    """
    first, second = export.resolve(), engine.resolve()
    if first == second or first in second.parents or second in first.parents:
        raise UsageError(
            f"{engine}: the engine would lie in the directory of the export {export} or around it; "
            "give --engineDir and --onnxDir different directories"
        )


def keep_foreign_files(old: Path, new: Path, kind: Kind, written: Set[str]) -> None:
    """Take files of ``old`` that this package did not write (a ``voice_map.json``) over into ``new``.

    Args:
        old: the directory that will be replaced, if there is one.
        new: what will replace it.
        kind: of both.
        written: names in ``old`` that an earlier build or export wrote, if ``old`` is of this kind.

    Raises:
        UsageError: ``old`` is no directory of ``kind``, and one of its files has the name of a new one.
    """
    if not old.is_dir():
        return
    ours = (old / kind.mark).exists()
    for path in sorted(old.iterdir()):
        if not path.is_file() or (ours and path.name in written):
            continue
        if not (new / path.name).exists():
            place(path, new / path.name, link=True)
        elif not ours:
            raise UsageError(
                f"{path}: the {kind.name} has a file of this name too, and this one is not of an earlier {kind.name}; "
                "choose another directory or move it away"
            )


@contextmanager
def written_to(directory: Path, what: str) -> Iterator[None]:
    """Report an error of the operating system in the words of the user: the directory that is written, not a temporary.

    Raises:
        EngineError: the block raised OSError.
    """
    try:
        yield
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise EngineError(
            f"{directory}: the {what} cannot be written: {reason}; check the place and its space"
        ) from fault


@contextmanager
def unmade_by_failure(directory: Path) -> Iterator[None]:
    """Take back the empty directories that the block made on the way to ``directory``, itself included, if it fails."""
    absent = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        for path in absent:
            with suppress(OSError):  # it was not made, or holds something
                path.rmdir()
        raise
