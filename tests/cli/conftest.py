"""Tests of the commands that need TensorRT for RTX are collected where it is."""

from __future__ import annotations

from tests.tensorrt_rtx import HAS_WHEEL

if not HAS_WHEEL:
    collect_ignore = ["test_building.py"]
