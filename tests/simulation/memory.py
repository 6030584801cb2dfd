"""Memory of the simulated device: host memory that the host cannot touch, poisoned and fenced."""

from __future__ import annotations

import ctypes
import mmap
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tests.simulation.faults import FaultLog, caller

Kind = Literal["device", "pinned"]

ALIGNMENT = 256
_GUARD = 256
_POISON = 0x7FC0DEAD  # NaN as float32 and bfloat16, absurd as an integer
_PATTERN = np.full(2 * _GUARD // 4, _POISON, np.uint32).tobytes()
_SPACE = 1 << 35  # addresses are never given out twice, so that a late access is seen; this is how many there are
_QUARANTINE = 32 << 20  # bytes of freed memory that keep their poison; older ones are given back to the system

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
]  # fmt: skip
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_NORESERVE, _DONTNEED, _HUGEPAGE = 0x4000, 4, 14


@dataclass(eq=False, slots=True)
class Allocation:
    """One piece of memory.

    Attributes:
        address: of its first byte.
        size: in bytes.
        kind: device memory, or pinned host memory.
        origin: where in the product it was asked for.
        live: False once freed.
    """

    address: int
    size: int
    kind: Kind
    origin: str
    live: bool = True

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size

    def __str__(self) -> str:
        return f"{self.size} bytes of {self.kind} memory allocated at {self.origin}"


class Arena:
    """Allocations of one kind.

    Device memory is accessible only inside ``opened``: a host that reads a device pointer meets a segmentation fault,
    as on hardware. Pinned memory is always accessible.
    """

    def __init__(self, kind: Kind, faults: FaultLog) -> None:
        self.kind = kind
        self._faults = faults
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        self._base = int(_libc.mmap(None, _SPACE, 0, flags, -1, 0))
        if self._base == ctypes.c_void_p(-1).value:
            raise MemoryError("simulation: no address space for the simulated memory")
        _libc.madvise(self._base, _SPACE, _HUGEPAGE)  # fewer pages to protect and release, where the system has them
        self._next = 0
        self._open = 0
        self._starts: list[int] = []
        self._all: list[Allocation] = []
        self.live: dict[int, Allocation] = {}  # what has not been freed, by address
        self.live_bytes = 0
        self._freed: deque[Allocation] = deque()
        self._freed_bytes = 0

    def holds(self, address: int) -> bool:
        """Whether an address lies in memory of this kind, live or not."""
        return self._base <= address < self._base + self._next

    def allocate(self, size: int) -> Allocation:
        """New memory, poisoned."""
        span = -(-(size + 2 * _GUARD) // ALIGNMENT) * ALIGNMENT
        start = self._base + self._next
        self._next += span
        if self.kind == "pinned" or self._open:
            self._protect(mmap.PROT_READ | mmap.PROT_WRITE)
        found = Allocation(start + _GUARD, size, self.kind, caller())
        self._starts.append(start)
        self._all.append(found)
        self.live[found.address] = found
        self.live_bytes += size
        with self.opened():
            _fill(start, span)
        return found

    def free(self, found: Allocation) -> None:
        """Poison memory and never give its addresses out again."""
        self.check_fences(found, "free")
        found.live = False
        del self.live[found.address]
        self.live_bytes -= found.size
        with self.opened():
            _fill(found.address, found.size)
        self._freed.append(found)
        self._freed_bytes += found.size
        while self._freed_bytes > _QUARANTINE:
            oldest = self._freed.popleft()
            self._freed_bytes -= oldest.size
            first, end = -(-oldest.address // mmap.PAGESIZE), oldest.end // mmap.PAGESIZE
            if end > first:
                _libc.madvise(first * mmap.PAGESIZE, (end - first) * mmap.PAGESIZE, _DONTNEED)

    def at(self, address: int) -> Allocation | None:
        """The allocation that an address belongs to, fences included, live or not."""
        index = bisect_right(self._starts, address) - 1
        return self._all[index] if index >= 0 and self.holds(address) else None

    def check_fences(self, found: Allocation, what: str) -> None:
        """Fail where somebody wrote before or behind an allocation."""
        with self.opened():
            before, behind = found.address - _GUARD, found.end
            for side, where in (("before", before), ("behind", behind)):
                if ctypes.string_at(where, _GUARD) != _fence_at(where):
                    raise self._faults.add(f"{what}: somebody wrote {side} {found}")

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Let memory be accessed; may be nested."""
        if self.kind == "pinned":
            yield
            return
        if self._open == 0:
            self._protect(mmap.PROT_READ | mmap.PROT_WRITE)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if self._open == 0:
                self._protect(0)

    def release(self) -> None:
        """Give the memory back to the system. Pinned addresses stay readable: a failing test may still show them."""
        _libc.madvise(self._base, _SPACE, _DONTNEED)
        if self.kind == "device":
            _libc.munmap(self._base, _SPACE)

    def _protect(self, protection: int) -> None:
        size = -(-self._next // mmap.PAGESIZE) * mmap.PAGESIZE
        if size and _libc.mprotect(self._base, size, protection):
            raise MemoryError(f"simulation: mprotect failed with error {ctypes.get_errno()}")


def _fill(address: int, size: int) -> None:
    """Poison memory that begins at a multiple of 4."""
    words = size // 4
    np.ctypeslib.as_array((ctypes.c_uint32 * words).from_address(address)).fill(_POISON)
    ctypes.memmove(address + 4 * words, _PATTERN, size - 4 * words)


def _fence_at(address: int) -> bytes:
    """What a fence holds: the pattern goes on over the end of an allocation of any size."""
    phase = address % 4
    return _PATTERN[phase : phase + _GUARD]
