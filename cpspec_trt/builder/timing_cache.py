"""The timing cache of full TensorRT: kernel times measured on this GPU, kept in a file from build to build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cpspec_trt.builder.build_log import BuildLog
from cpspec_trt.errors import EngineError
from cpspec_trt.files.atomic import atomic_file, check_writable


def use_timing_cache(config: Any, path: Path, log: BuildLog) -> None:
    """Give a build the times that ``path`` holds; none if there is no such file yet.

    Raises:
        EngineError: the file cannot be read, or TensorRT refuses it (another GPU, driver or version, or no cache).
    """
    try:
        content = path.read_bytes() if path.exists() else b""
    except OSError as fault:
        raise EngineError(f"timing cache {path}: cannot be read: {fault.strerror}; choose another file") from None
    cache = config.create_timing_cache(content)
    if cache is None or not config.set_timing_cache(cache, ignore_mismatch=False):
        raise log.failure(f"cannot use the timing cache {path} (made elsewhere? remove it or choose another file)")


def check_place(path: Path) -> None:
    """Find out whether ``keep_timing_cache`` can write ``path``.

    Raises:
        EngineError: as ``keep_timing_cache``.
    """
    try:
        check_writable(path)
    except OSError as fault:
        raise _unwritable(path, fault) from None


def keep_timing_cache(config: Any, path: Path) -> None:
    """Write the times a build knows now, old and new, in one step.

    Raises:
        EngineError: the file cannot be written.
    """
    try:
        with atomic_file(path) as temporary:
            temporary.write_bytes(memoryview(config.get_timing_cache().serialize()))
    except OSError as fault:
        raise _unwritable(path, fault) from None


def _unwritable(path: Path, fault: OSError) -> EngineError:
    return EngineError(f"timing cache {path}: cannot be written: {fault.strerror}; choose another file")
