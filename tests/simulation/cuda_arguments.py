"""What the functions of the CUDA stand-in share: their arguments, and their answer where there is no device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from tests.simulation.cuda_types import Handle, cudaError_t
from tests.simulation.device import current

P = ParamSpec("P")
Result = tuple[Any, ...]
OK = cudaError_t.cudaSuccess


def driven(results: int = 0) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Fail as CUDA does where there is no driver or no device; ``results`` values follow the error code."""

    def decorate(function: Callable[P, Result]) -> Callable[P, Result]:
        @functools.wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> Result:
            settings = current().settings
            nothing = (None,) * results
            if not settings.driver:
                return (cudaError_t.cudaErrorInsufficientDriver, *nothing)
            if not settings.devices:
                return (cudaError_t.cudaErrorNoDevice, *nothing)
            return function(*arguments, **named)

        return call

    return decorate


def integer(value: Any) -> int:
    if isinstance(value, float) or not hasattr(value, "__index__"):
        raise TypeError("an integer is required")
    return int(value.__index__())


def enumerated(value: Any, expected: type[Any]) -> Any:
    if not isinstance(value, expected):
        raise TypeError(f"a {expected.__name__} is required, not {type(value).__name__}")
    return value


def handle_of(value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, int | np.integer | Handle):
        raise TypeError(f"a handle or an integer is required, not {type(value).__name__}")
    return int(value)


def address_of(pointer: Any) -> int:
    """The address behind a pointer argument: None, an integer, or an object with a buffer."""
    if pointer is None:
        return 0
    if isinstance(pointer, int | np.integer):
        return int(pointer)
    try:
        view = memoryview(pointer).cast("B")
    except TypeError as fault:
        raise TypeError(
            f"Provided argument is of type {type(pointer)} but expected Type None, int or object with Buffer Protocol"
        ) from fault
    return int(np.frombuffer(view, np.uint8).ctypes.data)
