"""Builds are the same on every machine: no GPU is found unless a test says there is one."""

from __future__ import annotations

import platform
import sys

import pytest

from cpspec_trt.builder import flavour

if (sys.platform, platform.machine()) != ("linux", "x86_64"):
    collect_ignore_glob = ["*tensorrt*"]  # TensorRT for RTX has no wheel here


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flavour, "probe", lambda: "no GPU can be used")
