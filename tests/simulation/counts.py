"""How much a product asked of the simulated device."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace


@dataclass(slots=True)
class Counts:
    """Counters; subtract an earlier ``copy`` to learn what happened since.

    Attributes:
        launches: kernels launched outside graphs.
        engine_runs: ``execute_async_v3`` outside captures.
        graph_launches: graphs launched.
        replayed: nodes of graphs that ran.
        captured: nodes recorded into graphs.
        synchronisations: waits for a stream, an event or the device; a copy that waits is one.
        copies: copies asked for outside captures.
        bytes: bytes of those copies.
        memsets: memory sets asked for outside captures.
        allocations: device and pinned allocations.
    """

    launches: int = 0
    engine_runs: int = 0
    graph_launches: int = 0
    replayed: int = 0
    captured: int = 0
    synchronisations: int = 0
    copies: int = 0
    bytes: int = 0
    memsets: int = 0
    allocations: int = 0

    def copy(self) -> Counts:
        """The counters as they are now."""
        return replace(self)

    def __sub__(self, earlier: Counts) -> Counts:
        return Counts(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))
