"""How every command of this package ends: one line per error on stderr, and an exit code that says what kind."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec

import click

from cpspec_trt.errors import CpspecError, Interrupted

_FAILED = 1
_Parameters = ParamSpec("_Parameters")


class Command(click.Command):
    """A click command that reports a usage error as ``error: …`` on one line (exit code 2), without a usage text."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Parse, run and leave the process."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except click.ClickException as fault:
            _fail(f"{fault.format_message().rstrip('.')}; see --help", fault.exit_code)
        except click.Abort:
            _fail("interrupted", Interrupted.exit_code)
        sys.exit(code if isinstance(code, int) else 0)


def reports_errors(function: Callable[_Parameters, int | None]) -> Callable[_Parameters, NoReturn]:
    """Decorate the function of a command: run it, then leave the process with the right exit code.

    0 or the returned int when it ends by itself, ``exit_code`` of a CpspecError, 1 after an error of the
    operating system, 130 when interrupted. Errors are printed as ``error: …`` on one line.
    """

    @functools.wraps(function)
    def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> NoReturn:
        try:
            code = function(*args, **kwargs)
            if sys.stdout is not None:  # closed by the caller
                sys.stdout.flush()
        except CpspecError as fault:
            _fail(str(fault), fault.exit_code)
        except KeyboardInterrupt:
            _fail("interrupted", Interrupted.exit_code)
        except BrokenPipeError:
            # Whoever read our output has left (head, a pager): send the rest nowhere, so that exiting stays quiet.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_FAILED)
        except OSError as fault:
            where = f"{fault.filename}: " if fault.filename else ""
            _fail(f"{where}{fault.strerror or fault}", _FAILED)
        sys.exit(code or 0)

    return run


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)
