#!/usr/bin/env python3
"""What the CUDA kernels need of a device, from the compiler's own report.

    make -C plugins cuda
    python scripts/kernel_resources.py build/plugins/cuda-* --write docs/measurements/kernels.md

Always fails where a kernel uses local memory or exceeds a limit. --write replaces the table of the document, --check
fails where the document says something else.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MAX_REGISTERS = 128  # two blocks of 256 threads on every device
MAX_SHARED_BYTES = 48 * 1024 - 4096 * 4  # of declared objects, beside a row of the largest vocabulary
TOLERATED_REGISTERS = 16  # between compiler releases, in --check
BEGIN, END = "<!-- resources: written by scripts/kernel_resources.py -->", "<!-- end of resources -->"

_KERNEL = re.compile(
    r"Compiling entry function '(?P<symbol>\w+)' for 'sm_(?P<architecture>\d+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?:[^\n]*?(?P<shared>\d+) bytes smem)?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel, compiled for one architecture, needs.

    Attributes:
        kernel: its name; element types are left out.
        architecture: for example 90.
        registers: of a thread.
        shared: bytes of declared shared memory of a block.
        local: bytes of stack and spills of a thread.
    """

    kernel: str
    architecture: int
    registers: int
    shared: int
    local: int


def read_reports(folder: Path) -> list[Resources]:
    """Every kernel in the ``.ptxas`` files that plugins/Makefile leaves beside the objects."""
    found = []
    for report in sorted(folder.glob("*.ptxas")):
        matches = list(_KERNEL.finditer(report.read_text()))
        symbols = "\n".join(match["symbol"] for match in matches)
        names = subprocess.run(["c++filt"], input=symbols, capture_output=True, text=True, check=True).stdout
        for name, match in zip(names.splitlines(), matches, strict=True):
            kernel = re.sub(r"<.*|\(.*|^void ", "", name.replace("void ", "", 1)).removeprefix("cpspec::")
            local = sum(int(match[key]) for key in ("stack", "stores", "loads"))
            found.append(
                Resources(kernel, int(match["architecture"]), int(match["registers"]), int(match["shared"] or 0), local)
            )
    return found


def violations(resources: list[Resources]) -> list[str]:
    """One line per kernel and limit."""
    lines = []
    for each in resources:
        where = f"{each.kernel} on sm_{each.architecture}"
        if each.local:
            lines.append(f"{where} uses {each.local} bytes of local memory (stack and spills), it must use none")
        if each.registers > MAX_REGISTERS:
            lines.append(f"{where} uses {each.registers} registers, at most {MAX_REGISTERS} are allowed")
        if each.shared > MAX_SHARED_BYTES:
            lines.append(f"{where} declares {each.shared} bytes of shared memory, at most {MAX_SHARED_BYTES} fit")
    return lines


def table(resources: list[Resources]) -> list[str]:
    """Markdown, a row per kernel: the largest need over element types."""
    architectures = sorted({each.architecture for each in resources})
    lines = [
        "| kernel | shared bytes | " + " | ".join(f"sm_{each}" for each in architectures) + " |",
        "|---|--:|" + "--:|" * len(architectures),
    ]
    for kernel in sorted({each.kernel for each in resources}):
        own = [each for each in resources if each.kernel == kernel]
        registers = [max(each.registers for each in own if each.architecture == one) for one in architectures]
        shared = max(each.shared for each in own)
        lines.append(f"| `{kernel}` | {shared} | " + " | ".join(map(str, registers)) + " |")
    return lines


def _cells(line: str) -> list[str]:
    return [cell.strip(" `") for cell in line.strip("|").split("|")]


def differences(resources: list[Resources], document: str) -> list[str]:
    """Where the document's table is not what the compiler said; architectures it was not asked for are passed over."""
    if BEGIN not in document or END not in document:
        return ["the document has no table of resources"]
    committed = document.split(BEGIN)[1].split(END)[0].strip().splitlines()
    headers = _cells(committed[0])
    rows = {cells[0]: dict(zip(headers, cells, strict=True)) for cells in map(_cells, committed[2:])}
    lines = []
    names = {each.kernel for each in resources}
    lines += [f"{name} is in the document and in no report" for name in sorted(rows.keys() - names)]
    for each in resources:
        row = rows.get(each.kernel)
        if row is None:
            lines.append(f"{each.kernel} is not in the document")
            continue
        said = row.get(f"sm_{each.architecture}")
        # The document holds the largest of the element types; another may be below it.
        if said is None or each.registers > int(said) + TOLERATED_REGISTERS:
            lines.append(f"{each.kernel} uses {each.registers} registers on sm_{each.architecture}, not {said}")
        if each.shared > int(row["shared bytes"]):
            lines.append(f"{each.kernel} declares {each.shared} bytes of shared memory, not {row['shared bytes']}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where plugins/Makefile left the objects")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT")
    parser.add_argument("--check", type=Path, metavar="DOCUMENT")
    arguments = parser.parse_args()
    resources = read_reports(arguments.folder)
    if not resources:
        print(f"error: {arguments.folder} holds no compiler reports; run make -C plugins cuda", file=sys.stderr)
        return 1
    faults = violations(resources)
    if arguments.check:
        faults += differences(resources, arguments.check.read_text())
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    lines = table(resources)
    if arguments.write and not faults:
        before, rest = arguments.write.read_text().split(BEGIN)
        arguments.write.write_text("\n".join([before + BEGIN, *lines, END + rest.split(END)[1]]))
    print("\n".join(lines))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
