"""The header is read as it is: every operation that the product calls, every structure that it fills."""

from __future__ import annotations

import ctypes

import pytest

from cpspec_trt.kernels import native_structs
from cpspec_trt.kernels.native_library import OPERATIONS
from tests.simulation.kernels_header import operations, structures


def test_every_operation_of_the_product_is_found_with_as_many_parameters() -> None:
    assert {name: len(parameters) + 1 for name, parameters in operations().items()} == {
        name: len(types) for name, types in OPERATIONS.items()
    }


@pytest.mark.parametrize("name", OPERATIONS)
def test_pointers_and_structures_are_passed_as_addresses_and_values_are_not(name: str) -> None:
    for parameter, kind in zip(operations()[name], OPERATIONS[name], strict=False):
        assert (parameter.sort != "value") == (kind is ctypes.c_void_p)


def test_every_structure_has_the_fields_that_the_product_fills() -> None:
    ours = {
        value.__name__: [field[0] for field in value._fields_]
        for value in vars(native_structs).values()
        if isinstance(value, type) and issubclass(value, ctypes.Structure) and value is not ctypes.Structure
    }
    found = {
        "".join(part.title() for part in name.split("_")[1:]) + "Struct": [field.name for field in fields]
        for name, fields in structures().items()
    }
    assert found == ours


def test_tables_of_pointers_are_told_from_pointers() -> None:
    tables = {(name, each.name) for name, parameters in operations().items() for each in parameters if each.table}
    assert ("copy_accepted_rows", "caches") in tables
    assert ("filter", "logits") not in tables
