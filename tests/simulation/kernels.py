"""The emulated CUDA kernels in stream order: a call is enqueued, or recorded, and runs when its stream does.

The product loads ``libcpspec_cuda.so`` by its own code; inside ``simulated()`` that path holds the emulated library and
``ctypes.CDLL`` gives the handle below.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from ctypes import c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from cpspec_trt.kernels import native_structs
from tests.plugins.building import make
from tests.simulation.device import current
from tests.simulation.kernels_header import Parameter, operations, structures
from tests.simulation.memory import Allocation
from tests.simulation.streams import Work

# The order of threads that the emulation takes: the natural one, in blocks of one warp, which is the quickest.
_SCHEDULE = (0, 1, 32)


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
        self._library = library = real(str(path))
        for name in ("configure", "defer", "drop"):
            getattr(library, f"cpspec_emulation_{name}").restype = None
        library.cpspec_emulation_configure.argtypes = [c_uint64, c_int32, c_uint32]
        library.cpspec_emulation_keep.restype = c_uint64
        for name in ("run", "drop"):
            getattr(library, f"cpspec_emulation_{name}").argtypes = [c_uint64]
        library.cpspec_launches.restype = c_uint64
        library.cpspec_last_error.restype = c_char_p
        self._operations = {f"cpspec_{name}": _Operation(name, library) for name in operations()}

    def __getattr__(self, name: str) -> Any:
        return self._operations.get(name) or getattr(self._library, name)


class _Kept:
    """An operation whose arguments were checked and whose launches the library keeps, to run them in stream order."""

    def __init__(self, library: ctypes.CDLL, call: Callable[[], int]) -> None:
        self._library = library
        before = int(library.cpspec_launches())
        library.cpspec_emulation_configure(*_SCHEDULE)
        library.cpspec_emulation_defer()
        self.status = call()
        self._handle = int(library.cpspec_emulation_keep())
        self.launches = int(library.cpspec_launches()) - before

    def run(self) -> None:
        """Run the kernels, once or again."""
        self._library.cpspec_emulation_configure(*_SCHEDULE)
        if self._library.cpspec_emulation_run(self._handle):
            raise current().fault(f"the kernels: {self._library.cpspec_last_error().decode()}")

    def __del__(self) -> None:
        self._library.cpspec_emulation_drop(self._handle)


class _Operation:
    """One C function of the library; takes the attributes that ctypes functions have."""

    def __init__(self, name: str, library: ctypes.CDLL) -> None:
        self._name = f"cpspec_{name}"
        self._function = getattr(library, self._name)
        self._library = library
        self._parameters = operations()[name]
        self.restype: object = None
        self.argtypes: tuple[type, ...] = ()

    def __call__(self, *arguments: object) -> int:
        """Check, enqueue, and give the status that the library gives."""
        device = current()
        *given, stream = arguments
        if len(given) != len(self._parameters):
            raise device.fault(f"{self._name}: {len(given)} arguments, the header has {len(self._parameters)}")
        touched: list[Allocation] = []
        for parameter, argument in zip(self._parameters, given, strict=True):
            touched += self._touched(parameter, argument)
        tables = list(self._tables(given))
        self._function.restype, self._function.argtypes = self.restype, self.argtypes
        kept = _Kept(self._library, lambda: int(self._function(*given, None)))
        if kept.status:
            return kept.status

        def run() -> None:
            for table, count in tables:
                for address in (c_int64 * count).from_address(table):
                    _allocation(f"{self._name}: an entry of a table", address)
            kept.run()

        def count() -> None:
            device.counts.launches += kept.launches

        device.enqueue(_pointer(stream), Work(self._name, run, tuple(dict.fromkeys(touched))), count)
        return 0

    def _touched(self, parameter: Parameter, argument: object) -> list[Allocation]:
        """Memory of the device that an argument points to; a structure is of the host and points further."""
        what = f"{self._name}: {parameter.name}"
        if parameter.sort == "value":
            return []
        address = _pointer(argument)
        if parameter.sort == "pointer" or address == 0:
            return _allocation(what, address)
        if current().find(address) is not None:
            raise current().fault(f"{what}: a structure must lie in host memory")
        struct = _structure(parameter.c_type).from_address(address)
        found: list[Allocation] = []
        for field in structures()[parameter.c_type]:
            if field.sort == "pointer":
                found += _allocation(f"{what}->{field.name}", getattr(struct, field.name) or 0)
        return found

    def _tables(self, arguments: list[object]) -> Iterator[tuple[int, int]]:
        """Address and length of tables of addresses, which lie on the device and can be read only when work runs."""
        names = [parameter.name for parameter in self._parameters]
        for parameter, argument in zip(self._parameters, arguments, strict=True):
            address = _pointer(argument) if parameter.sort != "value" else 0
            if parameter.c_type == "cpspec_tables" and address:
                struct = _structure(parameter.c_type).from_address(address)
                yield struct.tables or 0, struct.count if struct.tables else 0
            elif parameter.table and address:
                yield address, int(arguments[names.index(f"{parameter.name.removesuffix('s')}_count")])  # type: ignore[call-overload]


def _pointer(argument: Any) -> int:
    """The value of a pointer argument as ctypes would pass it."""
    if argument is None:
        return 0
    if isinstance(argument, c_void_p):
        return argument.value or 0
    target = getattr(argument, "_obj", None)  # byref(...)
    return ctypes.addressof(target) if target is not None else int(argument)


def _allocation(what: str, address: int) -> list[Allocation]:
    return [current().live_at(what, address, 1)] if address else []


def _structure(c_type: str) -> type[Any]:
    """The class of ``native_structs`` for a structure of the header."""
    name = "".join(part.title() for part in c_type.removeprefix("cpspec_").split("_"))
    found: type[Any] = getattr(native_structs, f"{name}Struct")
    return found
