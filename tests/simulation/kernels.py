"""The emulated CUDA kernels in stream order: a call is enqueued, or recorded, and runs when its stream does.

The product loads ``libcpspec_cuda.so`` by its own code; inside ``simulated()`` that path holds the emulated library and
``ctypes.CDLL`` gives the handle below.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from ctypes import c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from cpspec_trt.kernels import native_structs
from cpspec_trt.kernels.native_library import OPERATIONS
from tests.plugins.building import make
from tests.simulation.device import current
from tests.simulation.kernels_header import Parameter, operations, structures
from tests.simulation.memory import Allocation
from tests.simulation.streams import Work

# The order of threads that the emulation takes: the natural one, in blocks of 128, which is the quickest.
_SCHEDULE = (0, 1, 128)


def library_path() -> Path:
    """The emulated library under the name that the product looks for."""
    built = make("emulated") / "libcpspec_emulated.so"
    path = built.parent / "simulated" / "libcpspec_cuda.so"
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or not path.samefile(built):
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.symlink_to(built)
        fresh.replace(path)
    return path


class SimulatedHandle:
    """What ``ctypes.CDLL`` gives for the simulated library: operations enqueue, the rest is the library's own."""

    def __init__(self, path: Path, real: Callable[[str], ctypes.CDLL]) -> None:
        self._library = real(str(path))
        configure = self._library.cpspec_emulation_configure
        configure.restype = None
        configure.argtypes = [c_uint64, ctypes.c_int32, ctypes.c_uint32]
        self._configure = configure
        self._operations = {f"cpspec_{name}": _Operation(name, self) for name in operations()}

    def __getattr__(self, name: str) -> Any:
        return self._operations.get(name) or getattr(self._library, name)

    def run(self, function: Callable[..., int], name: str, arguments: tuple[object, ...]) -> int:
        """Run an operation now and return the kernels it launched."""
        self._configure(*_SCHEDULE)
        self._library.cpspec_launches.restype = c_uint64
        before = int(self._library.cpspec_launches())
        if function(*arguments, None):
            self._library.cpspec_last_error.restype = ctypes.c_char_p
            raise current().fault(f"cpspec_{name}: {self._library.cpspec_last_error().decode()}")
        return int(self._library.cpspec_launches()) - before


class _Operation:
    """One C function of the library; takes the attributes that ctypes functions have."""

    def __init__(self, name: str, handle: SimulatedHandle) -> None:
        self._name = name
        self._handle = handle
        self._parameters = operations()[name]
        self.restype: object = None
        self.argtypes: tuple[type, ...] = OPERATIONS[name]

    def __call__(self, *arguments: object) -> int:
        """Enqueue; the status of a call that was put into a stream."""
        device = current()
        what = f"cpspec_{self._name}"
        *given, stream = arguments
        if len(given) != len(self._parameters):
            raise device.fault(f"{what}: {len(given)} arguments and a stream, the header has {len(self._parameters)}")
        touched: list[Allocation] = []
        kept: list[object] = []
        for parameter, kind, argument in zip(self._parameters, self.argtypes, given, strict=False):
            if parameter.sort == "structure":
                copy = _copied(parameter, argument, what)
                kept.append(None if copy is None else ctypes.byref(copy))
                touched += [] if copy is None else _pointed(parameter.c_type, copy, what)
            elif parameter.sort == "pointer":
                address = _pointer(argument)
                kept.append(address)
                touched += _allocation(f"{what}: {parameter.name}", address)
            else:
                kept.append(kind(argument))
        function = getattr(self._handle._library, what)
        function.restype, function.argtypes = ctypes.c_int32, OPERATIONS[self._name]

        def run() -> int:
            for address in self._tables(kept):
                _allocation(f"{what}: an entry of a table", address)
            return self._handle.run(function, self._name, tuple(kept))

        handle = _pointer(stream)
        device.enqueue(handle, Work(what, run, tuple(touched)))
        return 0

    def _tables(self, arguments: list[object]) -> Iterator[int]:
        """Addresses that stand in tables on the device, which can be read only when the work runs."""
        for parameter, argument in zip(self._parameters, arguments, strict=True):
            if parameter.c_type == "cpspec_tables" and argument is not None:
                struct = argument._obj  # type: ignore[attr-defined]
                yield from _entries(struct.tables, struct.count)
            elif parameter.table:
                index = [each.name for each in self._parameters].index(f"{parameter.name[:-1]}_count")
                yield from _entries(argument, arguments[index].value)  # type: ignore[attr-defined]


def _entries(table: object, count: int) -> list[int]:
    address = _pointer(table)
    return list((c_int64 * count).from_address(address)) if address else []


def _pointer(argument: Any) -> int:
    """The value of a pointer argument as ctypes would pass it."""
    if argument is None:
        return 0
    if isinstance(argument, c_void_p):
        return argument.value or 0
    target = getattr(argument, "_obj", None)  # byref(...)
    return ctypes.addressof(target) if target is not None else int(argument)


def _copied(parameter: Parameter, argument: object, what: str) -> ctypes.Structure | None:
    """A structure as it is now: the library reads it before the call returns."""
    address = _pointer(argument)
    if address == 0:
        return None
    device = current()
    if device.find(address) is not None:
        raise device.fault(f"{what}: the structure {parameter.name} must lie in host memory")
    struct: type[ctypes.Structure] = getattr(native_structs, _python_name(parameter.c_type))
    return struct.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(struct)))


def _pointed(c_type: str, struct: ctypes.Structure, what: str) -> list[Allocation]:
    found: list[Allocation] = []
    for field in structures()[c_type]:
        if field.sort == "pointer":
            found += _allocation(f"{what}: {field.name}", getattr(struct, field.name) or 0)
    return found


def _allocation(what: str, address: int) -> list[Allocation]:
    return [current().live_at(what, address, 1)] if address else []


def _python_name(c_type: str) -> str:
    return "".join(part.title() for part in c_type.removeprefix("cpspec_").split("_")) + "Struct"
