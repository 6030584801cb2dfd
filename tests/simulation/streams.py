"""Streams, events and graphs: what is enqueued, in which order it runs, and whether what it touches still exists."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.faults import caller
from tests.simulation.memory import Allocation


@dataclass(eq=False, slots=True)
class Lifetime:
    """Something that queued work needs and that the product may destroy, for example an execution context."""

    name: str
    alive: bool = True


@dataclass(eq=False, slots=True)
class Work:
    """One entry of a stream or node of a graph.

    Attributes:
        what: its name in messages.
        run: does it.
        touches: memory that must live when it runs.
        needs: objects that must live when it runs.
        nodes: of a graph that is launched; they run first.
    """

    what: str
    run: Callable[[], None]
    touches: tuple[Allocation, ...] = ()
    needs: tuple[Lifetime, ...] = ()
    nodes: tuple[Work, ...] = ()
    origin: str = field(default_factory=caller)

    def missing(self) -> str | None:
        """What it needs and is gone, or None."""
        for found in self.touches:
            if not found.live:
                return f"{found} was freed"
        for need in self.needs:
            if not need.alive:
                return f"{need.name} was destroyed"
        return None


@dataclass(eq=False, slots=True)
class Graph:
    """A recorded graph, or an executable one."""

    nodes: list[Work]
    origin: str = field(default_factory=caller)


@dataclass(eq=False, slots=True)
class Capture:
    """A recording in progress.

    Attributes:
        relaxed: whether calls that may wait for the device are allowed meanwhile, allocations among them.
    """

    relaxed: bool
    nodes: list[Work] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Stream:
    """A queue of work.

    Attributes:
        blocking: whether it and the default stream wait for one another.
    """

    blocking: bool
    pending: deque[Work] = field(default_factory=deque)
    capture: Capture | None = None
    origin: str = field(default_factory=caller)


@dataclass(eq=False, slots=True)
class Event:
    """A mark in a stream.

    Attributes:
        timed: whether it keeps the time.
        stream: where it was last recorded.
        mark: the work that stands for it, None before the first record.
        captured: whether that record went into a graph.
        done_at: seconds at which the mark was reached, None before.
    """

    timed: bool
    stream: Stream | None = None
    mark: Work | None = None
    captured: bool = False
    done_at: float | None = None
    origin: str = field(default_factory=caller)
