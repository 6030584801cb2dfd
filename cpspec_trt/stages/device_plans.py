"""What the host plans for the CodePredictor's graphs beside positions, and how a graph is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from cpspec_trt.devices.arrays import DeviceArray
from cpspec_trt.devices.device import Device, Graph
from cpspec_trt.devices.packed import Contents
from cpspec_trt.kernels.device_arrays import DeviceFilters
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows
from cpspec_trt.speculation.rules import Rule

FLOAT32, INT32, INT64 = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.int64)
UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
FILTERS = ("temperature", "top_k", "top_p")


@dataclass(frozen=True, slots=True)
class Guard:
    """When a round leaves a code of a request to a plain step (see ``kernels.rules_protocol``).

    Attributes:
        tolerance: gap below which a verified row decides nothing; 0 where none is guarded.
        of_logits: the gap is that of the two best logits, for greedy rows; else that of the two best perturbed
            log-probabilities, which the rule coupled compares by itself.
    """

    tolerance: float
    of_logits: bool


UNGUARDED = Guard(0.0, of_logits=False)


def guard_for(filters: FilterParameters, rule: Rule, tolerance: float) -> Guard:
    """The guard of a request.

    Codes must not depend on rounding where they are a function of the seed: in greedy rows and under coupling. Other
    rules keep the law of the codes whatever the rounding.

    Args:
        filters: how the request draws.
        rule: how its drafts are accepted.
        tolerance: gap of two logits, of the backend; 0 where its rows are exact.
    """
    if not tolerance:
        return UNGUARDED
    if filters.greedy:
        return Guard(tolerance, of_logits=True)
    return Guard(tolerance / filters.temperature, of_logits=False) if rule.codes_follow_seed else UNGUARDED


class RowParameters:
    """What decides the draws of each row of the batch: filters, seed, frame, tolerance of the guard.

    Attributes:
        version: grows with every change.
    """

    def __init__(self, batch: int) -> None:
        self.temperature = np.zeros(batch, np.float32)
        self.top_k = np.zeros(batch, np.int32)
        self.top_p = np.ones(batch, np.float32)
        self.seeds = np.zeros(batch, np.uint64)
        self.frames = np.zeros(batch, np.uint32)
        self.tolerances = np.zeros(batch, np.float32)
        self.version = 0

    def set(self, row: int, filters: FilterParameters, seed: int, tolerance: float = 0.0) -> None:
        """Begin a request in a row; ``tolerance`` is its guard's."""
        packed = FilterRows.pack([filters])
        for name in FILTERS:
            getattr(self, name)[row] = getattr(packed, name)[0]
        self.seeds[row], self.tolerances[row] = seed, tolerance
        self.version += 1

    def at_frame(self, frame: int) -> None:
        """Go to a frame, in every row."""
        self.frames[:] = frame
        self.version += 1


def head_contents(kind: str, rows: int) -> Contents:
    """Which head is applied to which hidden row; names begin with ``kind``."""
    return {f"{kind}_hidden": ((rows,), INT64), f"{kind}_heads": ((rows,), INT64)}


def filter_contents(kind: str, rows: int) -> Contents:
    """How the logits of rows are filtered; names begin with ``kind``."""
    return {
        f"{kind}_temperature": ((rows,), FLOAT32),
        f"{kind}_top_k": ((rows,), INT32),
        f"{kind}_top_p": ((rows,), FLOAT32),
    }


def sequence_contents(batch: int) -> Contents:
    """Where each sequence stands in the batch and its drafts among those of the round."""
    return {"rows": ((batch,), INT64), "counts": ((batch,), INT64), "first_hidden": ((batch,), INT64)}


def noise_contents(batch: int) -> Contents:
    """Where the noise of each sequence comes from, beside the stream."""
    return {"seeds": ((batch,), UINT64), "frames": ((batch,), UINT32)}


def filters_of(arrays: Mapping[str, DeviceArray], kind: str) -> DeviceFilters:
    """The arrays of ``filter_contents``."""
    return DeviceFilters(*(arrays[f"{kind}_{name}"] for name in FILTERS))


def captured(device: Device, enqueue: Callable[[], None]) -> Graph:
    """A graph of what ``enqueue`` puts into the stream, run once before.

    Engines set themselves up in their first run, which must not be inside a capture.
    """
    enqueue()
    device.synchronise()
    return device.capture(enqueue)
