"""One operation at one size, and the same work in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpspec_trt.kernels.native import NativeKernels
from cpspec_trt.kernels.philox import Purpose, stream
from cpspec_trt.kernels.protocol import FilterParameters, FilterRows

GROUPS, CODEBOOK, WIDTH = 16, 2048, 1024
DRAFTS = 2
SAMPLED = FilterParameters(0.9, 50, 0.8)
# A tree of drafts: a root, two children, two children of each.
PARENTS, NODE_DEPTHS = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 2, 2, 2])
DEVICE = "cuda"  # of PyTorch's tensors

Copy = Callable[[np.ndarray], np.ndarray]  # into memory that host and device share
Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Twin:
    """The same work in PyTorch.

    Attributes:
        prepare: takes the module ``torch`` and returns the work, its tensors on the device.
        draws: whether the work takes random numbers.
    """

    prepare: Callable[[Any], Work]
    draws: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """One operation at one size, prepared once and then enqueued again and again.

    Attributes:
        name: the operation.
        size: for people.
        size_bytes: what it must at least read and write.
        run: makes the call.
        twin: the same in PyTorch.
        reset: puts the state back that calls move on; None where calls repeat.
        calls: how many calls the state has room for before it must be put back.
    """

    name: str
    size: str
    size_bytes: int
    run: Callable[[NativeKernels], None]
    twin: Twin
    reset: Callable[[], None] | None = None
    calls: int = 1 << 30


class Rows:
    """What operations over rows share: filters, noise and outputs."""

    def __init__(self, copy: Copy, rows: int, vocabulary: int) -> None:
        packed = FilterRows.pack([SAMPLED] * rows)
        self.filters = FilterRows(copy(packed.temperature), copy(packed.top_k), copy(packed.top_p))
        self.seeds = copy(np.arange(rows, dtype=np.uint64))
        self.streams = copy(stream(Purpose.DRAFT, np.full(rows, 2), np.ones(rows, np.int64)))
        self.frames = copy(np.zeros(rows, np.uint32))
        self.logits = copy(np.zeros((rows, vocabulary), np.float32))
        self.probabilities = copy(np.zeros((rows, vocabulary), np.float32))
        self.codes = copy(np.zeros(rows, np.int64))
        self.errors = copy(np.zeros(rows, np.int32))

    @property
    def noise(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Seeds, streams and frames."""
        return self.seeds, self.streams, self.frames


def on_device(torch: Any, array: np.ndarray) -> Any:
    """A tensor of the array's values; narrow floats become what PyTorch calls them."""
    narrow = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(array.dtype.name)
    if narrow is not None:
        return torch.tensor(array.astype(np.float32), device=DEVICE).to(narrow)
    return torch.tensor(array, device=DEVICE)


def steps(torch: Any, count: int) -> Any:
    """0, 1, … count - 1."""
    return torch.arange(count, device=DEVICE)


def torch_filter(torch: Any, logits: Any) -> Any:
    """Temperature, top-k and top-p as PyTorch models write it; (probabilities of the k, their ids)."""
    best, ids = torch.topk(logits / SAMPLED.temperature, SAMPLED.top_k, dim=-1)
    law = torch.softmax(best, dim=-1)
    law = law * (law.cumsum(-1) - law < SAMPLED.top_p)
    return law / law.sum(-1, keepdim=True), ids


def torch_dense(torch: Any, logits: Any) -> Any:
    """Filtered probabilities over the whole vocabulary."""
    law, ids = torch_filter(torch, logits)
    return torch.zeros_like(logits).scatter_(-1, ids, law)


def torch_draw(torch: Any, logits: Any) -> Any:
    """A code of each row."""
    law, ids = torch_filter(torch, logits)
    return ids.gather(-1, torch.multinomial(law, 1))
