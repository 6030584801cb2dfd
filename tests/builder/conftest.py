"""Builds are the same on every machine: no GPU is found unless a test says there is one."""

from __future__ import annotations

import pytest

from cpspec_trt.builder import flavour
from tests.tensorrt_rtx import HAS_WHEEL

if not HAS_WHEEL:
    using_it = ("build_log", "build_progress", "engine_options", "tensorrt*", "timing_cache")
    collect_ignore_glob = [f"test_{name}.py" for name in using_it]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flavour, "probe", lambda: "no GPU can be used")
