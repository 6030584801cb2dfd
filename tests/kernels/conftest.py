"""Fixtures that run a test over the implementations of ``Kernels``."""

from __future__ import annotations

import pytest

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.protocol import Kernels
from tests.kernels.implementations import FAST, IMPLEMENTATIONS, NATIVE


@pytest.fixture(scope="session", params=IMPLEMENTATIONS)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """Every implementation."""
    return IMPLEMENTATIONS[request.param]()


@pytest.fixture(scope="session", params=NATIVE)
def native(request: pytest.FixtureRequest) -> NativeKernels:
    """Every compiled implementation."""
    return NATIVE[request.param]()


@pytest.fixture(scope="session", params=FAST)
def fast(request: pytest.FixtureRequest) -> Kernels:
    """Every implementation that can be run a million times."""
    return FAST[request.param]()
