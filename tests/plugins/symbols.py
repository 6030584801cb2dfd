"""What a compiled file calls elsewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

# malloc and its kin, operator new and delete (mangled), and what asks the system for memory.
ALLOCATING = re.compile(r"(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|mmap|munmap|_Zn[wa]|_Zd[la])")


def undefined_symbols(path: Path, *options: str) -> list[str]:
    """Names that the file expects from others, without their versions.

    Args:
        path: an object, or with ``-D`` a shared library.
        options: of nm.
    """
    listed = subprocess.run(["nm", "--undefined-only", *options, path], capture_output=True, text=True, check=True)
    return [line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()]
