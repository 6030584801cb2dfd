"""Where a synthetic checkpoint goes: a directory that is empty before and complete afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cpspec_trt.errors import UsageError
from cpspec_trt.files.atomic import atomic_directory


@contextmanager
def new_checkpoint(directory: Path) -> Iterator[Path]:
    """Yield a directory to fill; it becomes ``directory`` if the block succeeds.

    Raises:
        UsageError: ``directory`` holds something already.
    """
    if directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory}: is not empty; give a new directory for the synthetic checkpoint")
    with atomic_directory(directory) as new:
        yield new
