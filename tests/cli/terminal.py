"""A terminal for tests: runs a command whose stderr is a terminal and says what a person would see there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from dataclasses import dataclass
from fcntl import ioctl
from struct import pack
from termios import TIOCSWINSZ

from tests.conftest import ROOT

_CONTROL = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|[\r\n]|[^\x1b\r\n]+")


@dataclass(frozen=True, slots=True)
class Shown:
    """``raw`` as it was written, and what a pipe on stdout got."""

    returncode: int
    raw: str
    stdout: str

    @property
    def lines(self) -> list[str]:
        """What stands on the terminal at the end, scrolled-out lines included."""
        return screen(self.raw)


def run_in_terminal(command: list[str], columns: int = 80) -> Shown:
    """Run a command with stderr on a terminal and stdout on a pipe."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, pack("HHHH", 40, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm"}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 4096):
                shown += block
        except OSError:  # Linux answers EIO when the other side has closed
            pass
        assert process.stdout is not None
        stdout = process.stdout.read().decode()
        code = process.wait(timeout=60)
    os.close(ours)
    return Shown(code, shown.decode(), stdout)


def screen(raw: str) -> list[str]:
    """The lines that a terminal shows for what was written: carriage returns, cursor moves and erasures carried out.

    Lines are as long as they are written: nothing here wraps.
    """
    lines, row, column = [""], 0, 0
    for match in _CONTROL.finditer(raw):
        text, (argument, command) = match[0], (match[1], match[2])
        if text == "\r":
            column = 0
        elif text == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif command is None:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + text + line[column + len(text) :]
            column += len(text)
        elif command == "A":
            row = max(row - int(argument or 1), 0)
        elif command == "K":
            lines[row] = "" if argument == "2" else lines[row][:column]
    return [line.rstrip() for line in lines]
