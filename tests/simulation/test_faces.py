"""The stand-ins have names, parameters and values of the real modules: what they accept is accepted there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import pytest
import tensorrt_rtx  # type: ignore[import-untyped]
from cuda.bindings import runtime as real_runtime  # type: ignore[import-untyped]

from tests.simulation import cuda_runtime
from tests.simulation.simulation import simulated
from tests.simulation.tensorrt_module import module

FUNCTIONS = sorted(name for name in cuda_runtime.__all__ if inspect.isfunction(getattr(cuda_runtime, name)))
CLASSES = sorted(name for name in cuda_runtime.__all__ if inspect.isclass(getattr(cuda_runtime, name)))
CONSTANTS = sorted(name for name in cuda_runtime.__all__ if isinstance(getattr(cuda_runtime, name), int))
TENSORRT = module("tensorrt_rtx", tensorrt_rtx.__version__)
TENSORRT_CLASSES = sorted(name for name, value in vars(TENSORRT).items() if inspect.isclass(value))


def is_enumeration(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, IntEnum)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_cuda_has_the_parameters_of_the_real_one(name: str) -> None:
    ours, real = (inspect.signature(getattr(side, name)) for side in (cuda_runtime, real_runtime))
    assert list(ours.parameters) == list(real.parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_cuda_gives_as_many_results_as_the_real_one(name: str) -> None:
    documented = re.search(
        r"^( *)Returns\n *-------\n(.*?)(\n\n|\Z)", getattr(real_runtime, name).__doc__, re.DOTALL | re.MULTILINE
    )
    assert documented is not None
    indent = len(documented[1])
    results = [line for line in documented[2].splitlines() if len(line) - len(line.lstrip()) == indent]
    arguments = [0] * len(inspect.signature(getattr(cuda_runtime, name)).parameters)
    with simulated(driver=False):
        assert len(getattr(cuda_runtime, name)(*arguments)) == len(results)


@pytest.mark.parametrize("name", CLASSES)
def test_an_enumeration_of_cuda_has_the_values_of_the_real_one(name: str) -> None:
    ours, real = getattr(cuda_runtime, name), getattr(real_runtime, name)
    members = list(ours) if is_enumeration(ours) else []
    assert {each.name: each.value for each in members} == {
        each.name: getattr(real, each.name).value for each in members
    }


def test_a_property_of_a_device_is_one_that_the_real_structure_has() -> None:
    assert set(vars(cuda_runtime.cudaDeviceProp())) <= set(dir(real_runtime.cudaDeviceProp()))


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_of_cuda_has_the_real_value(name: str) -> None:
    assert getattr(cuda_runtime, name) == getattr(real_runtime, name)


def test_error_texts_are_those_of_cuda() -> None:
    for error in cuda_runtime.cudaError_t:
        real = real_runtime.cudaError_t(int(error))
        assert cuda_runtime.cudaGetErrorString(error)[1] == real_runtime.cudaGetErrorString(real)[1]
        assert cuda_runtime.cudaGetErrorName(error)[1] == real_runtime.cudaGetErrorName(real)[1]


def public(kind: type[Any]) -> Iterator[str]:
    """Public attributes that a stand-in class or its parents in the stand-in define."""
    for parent in kind.__mro__:
        if parent.__module__.startswith("tests."):
            yield from (name for name in vars(parent) if not name.startswith("_"))
            yield from (name for name in getattr(parent, "__slots__", ()) if not name.startswith("_"))


@pytest.mark.parametrize("name", TENSORRT_CLASSES)
def test_a_class_of_tensorrt_has_no_attribute_that_the_real_one_lacks(name: str) -> None:
    ours, real = getattr(TENSORRT, name), getattr(tensorrt_rtx, name)
    beyond = {"module", "version", "logger"} if name in ("Builder", "Runtime") else set()
    assert set(public(ours)) - beyond <= set(dir(real))


@pytest.mark.parametrize("name", [name for name in TENSORRT_CLASSES if is_enumeration(getattr(TENSORRT, name))])
def test_an_enumeration_of_tensorrt_has_the_values_of_the_real_one(name: str) -> None:
    ours, real = getattr(TENSORRT, name), getattr(tensorrt_rtx, name)
    assert {each.name: int(each) for each in ours} == {each.name: int(real.__members__[each.name]) for each in ours}


def methods() -> list[tuple[str, str]]:
    found = []
    for name in TENSORRT_CLASSES:
        kind = getattr(TENSORRT, name)
        if not is_enumeration(kind) and kind.__name__ != "Dims":
            found += [(name, each) for each in sorted(set(public(kind))) if inspect.isfunction(getattr(kind, each))]
    return found


@pytest.mark.parametrize(("name", "method"), methods())
def test_a_method_of_tensorrt_has_the_parameters_of_the_real_one(name: str, method: str) -> None:
    ours = list(inspect.signature(getattr(getattr(TENSORRT, name), method)).parameters)
    document = getattr(getattr(tensorrt_rtx, name), method).__doc__
    overloads = re.findall(rf"{method}\((self[^\n]*)\) ->", document)
    assert overloads, f"no signature in {document!r}"
    assert ours in [re.findall(r"(\w+)(?=: )", _plain(each)) for each in overloads]


def _plain(parameters: str) -> str:
    """A signature without what stands inside brackets or behind an equals sign."""
    while "[" in parameters:
        parameters = re.sub(r"\[[^\[\]]*\]", "", parameters)
    return re.sub(r"= <[^<>]*>", "", parameters)
