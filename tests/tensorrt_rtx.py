"""Where TensorRT for RTX is: the tests that build with it are collected there and nowhere else."""

from __future__ import annotations

import platform
import sys

HAS_WHEEL = (sys.platform, platform.machine()) == ("linux", "x86_64")  # as in the extras of pyproject.toml
