"""One exception per kind of fault. The command line prints the message on one line and exits with ``exit_code``."""

from __future__ import annotations

from typing import ClassVar


class CpspecError(Exception):
    """Base of every error this package raises on purpose. The message names file, field, value and remedy."""

    exit_code: ClassVar[int] = 1


class UsageError(CpspecError):
    """A flag or argument has a value that can never work."""

    exit_code = 2


class InputFileError(CpspecError):
    """The request file cannot be read or holds something that can never be answered."""

    exit_code = 2


class CheckpointError(CpspecError):
    """A checkpoint lacks a file, a tensor or a configuration value, or one of them is damaged."""


class EngineError(CpspecError):
    """An engine directory is incomplete, damaged, mismatched, or was asked for shapes it was not built for."""


class UnsupportedError(CpspecError):
    """The input is well formed, but this release does not implement what it asks for."""


class NumericError(CpspecError):
    """A model produced NaN, +inf or a row of -inf. The message names request, frame and RVQ depth."""


class RequestError(CpspecError):
    """One request failed; the others are not affected."""


class SpeculationRefused(CpspecError):
    """Speculation was required but the engines cannot do it."""


class Interrupted(CpspecError):
    """The run was stopped from outside (Ctrl-C); finished results are on disk."""

    exit_code = 130
