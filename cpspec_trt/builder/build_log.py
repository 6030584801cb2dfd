"""What TensorRT says while it builds: every line for a file, and its errors for our own messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from cpspec_trt.builder.flavour import Flavour
from cpspec_trt.errors import EngineError
from cpspec_trt.files.atomic import is_special

_SHOWN = 5  # errors that a message repeats; the first ones name the cause, later ones follow from them
# TensorRT asks the GPU for its state after every error. Where it builds without one, the answer is no news.
_NO_GPU_EITHER = ("catchCudaError", "cudaError 35")


class BuildLog:
    """Collects the lines of one build. Use as a context manager; lines may come from several threads.

    Attributes:
        logger: the ``ILogger`` to give to TensorRT; must live as long as its builder.
    """

    def __init__(self, trt: Any, flavour: Flavour, component: str, stream: TextIO | None = None) -> None:
        """Prepare a log.

        Args:
            trt: the flavour's module.
            flavour: which it is.
            component: what is built; stands in front of each line.
            stream: where every line goes, or None.
        """
        self._flavour = flavour
        self._component = component
        self._stream = stream
        self._errors: list[str] = []
        self._lock = threading.Lock()
        self.logger = _logger(trt, self._take, verbose=stream is not None)

    def __enter__(self) -> BuildLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, tb: TracebackType | None) -> None:
        if self._stream is not None:
            self._stream.flush()

    def failure(self, what: str, *reasons: str) -> EngineError:
        """An error that says what failed, the given reasons, and what TensorRT itself said, on one line."""
        with self._lock:
            found = list(dict.fromkeys([*reasons, *self._errors]))  # each once, in order
        lines = [" ".join(line.split()) for line in found]
        if not self._flavour.needs_gpu:
            lines = [line for line in lines if not all(mark in line for mark in _NO_GPU_EITHER)]
        said = "; ".join(lines[:_SHOWN]) or "TensorRT gave no reason"
        more = f" (and {len(lines) - _SHOWN} more; see all with --buildLog FILE)" if len(lines) > _SHOWN else ""
        return EngineError(f"{self._component}: {self._flavour.backend} {what}: {said}{more}")

    def _take(self, severity: str, line: str) -> None:
        with self._lock:
            if severity in ("ERROR", "INTERNAL_ERROR"):
                self._errors.append(line)
            if self._stream is not None:
                self._stream.write(f"{self._component} {severity} {line}\n")


def _logger(trt: Any, take: Any, verbose: bool) -> Any:
    """An ``ILogger`` that passes lines on; its class exists only once the module does."""

    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, line: str) -> None:
            if verbose or severity in (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR):
                take(severity.name, line)

    return Logger()


@contextmanager
def opened_log(path: Path | None) -> Iterator[TextIO | None]:
    """A log file to append to: the components of a checkpoint share one.

    Raises:
        EngineError: it cannot be written.
    """
    try:
        stream = nullcontext() if path is None else path.open("a", encoding="utf-8")
    except OSError as fault:
        raise EngineError(f"--buildLog {path}: cannot be written: {fault.strerror}; choose another file") from None
    with stream as opened:
        yield opened


def check_log(path: Path | None) -> None:
    """Find out whether ``opened_log`` can open a file; one that was not there is not left behind.

    Raises:
        EngineError: as ``opened_log``.
    """
    if path is None or is_special(path):  # a pipe would wait for its reader
        return
    is_new = not path.exists()
    with opened_log(path):
        pass
    if is_new:
        path.unlink()
