"""Putting files into an engine directory without losing what somebody else put there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cpspec_trt.errors import EngineError, UsageError
from cpspec_trt.files.manifest import MANIFEST_NAME, read_manifest


def place(source: Path, target: Path, link: bool) -> None:
    """Make ``target`` a copy of ``source``, or with ``link`` a second name of the same bytes where that is possible."""
    if link:
        try:
            os.link(source.resolve(), target)
            return
        except OSError:  # another file system, or one without links
            pass
    shutil.copyfile(source, target)


def check_replaceable(directory: Path) -> None:
    """Refuse an engine directory that a build could not replace as a whole.

    Raises:
        UsageError: it is a file, or holds directories, which no build has written.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise UsageError(f"{directory}: is a file; choose a directory for the engine")
    inner = sorted(path.name for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))
    if inner or directory.resolve() == Path(directory.resolve().anchor):
        found = f" ({', '.join(inner[:3])}{', …' if len(inner) > 3 else ''})" if inner else ""
        raise UsageError(
            f"{directory}: holds directories{found}, and an engine directory is replaced as a whole; "
            f"choose one of its own, for example {directory / 'talker'}"
        )


def keep_foreign_files(old: Path, new: Path) -> None:
    """Take files of ``old`` that no build wrote (a ``voice_map.json``) over into ``new``, unless it has that name."""
    if not old.is_dir():
        return
    written = _written_by_a_build(old)
    for path in old.iterdir():
        if path.is_file() and path.name not in written and not (new / path.name).exists():
            place(path, new / path.name, link=True)


def _written_by_a_build(directory: Path) -> set[str]:
    names = {MANIFEST_NAME, "config.json"}
    try:
        manifest = read_manifest(directory)
    except EngineError:  # no manifest or a damaged one: nothing is known to be ours, so everything is kept
        return names
    return names | {file.name for file in (*manifest.files, *manifest.sidecars)}
