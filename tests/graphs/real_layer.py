"""One layer of 128 experts in the proportions of the published Thinker (hidden size 2048), and what it takes to run it.

    python -m tests.graphs.real_layer DIRECTORY HIDDEN

Writes the layer's graph with random weights into DIRECTORY, opens it and runs some rows. Prints as JSON the bytes of
the weights, the growth of the process's memory at its peak, and for people to read: seconds to open the graph,
milliseconds of a pass, and milliseconds of merely adding up as many numbers as the experts of one row have.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime as ort

from cpspec_trt.errors import CheckpointError
from cpspec_trt.files.engine_config import DecoderDimensions, MoeDimensions
from cpspec_trt.files.tensors import Array, Shape, TensorEntry, TensorSet
from cpspec_trt.graphs.authoring import GraphAuthor
from cpspec_trt.graphs.checkpoint_weights import CheckpointWeights
from cpspec_trt.graphs.moe import expert_mlp

EXPERTS, CHOSEN = 128, 8


class RandomTensors(TensorSet):
    """Has every tensor it is asked for, of the wanted shape; nothing lies on disk."""

    def __init__(self) -> None:
        super().__init__(Path("random"), {}, CheckpointError)
        self._rng = np.random.default_rng(1)

    def entry(self, name: str, shape: Shape | None = None) -> TensorEntry:
        assert shape is not None
        return TensorEntry(name, "F32", shape, self.path, 0, 0)

    def read(self, name: str, shape: Shape | None = None) -> Array:
        assert shape is not None
        return self._rng.standard_normal(shape, np.float32) * np.float32(shape[-1] ** -0.5)


def inner_width(hidden: int) -> int:
    return hidden * 3 // 8


def weight_bytes(hidden: int) -> int:
    return 4 * EXPERTS * (3 * hidden * inner_width(hidden) + hidden)


def write_layer(directory: Path, hidden: int) -> Path:
    author = GraphAuthor("layer")
    moe = MoeDimensions(EXPERTS, CHOSEN, inner_width(hidden), True, 0, ())
    dimensions = DecoderDimensions(1, hidden, inner_width(hidden), 2, 1, 8, 8, 64, 1e-6, 1e4)
    x = author.input("x", ["rows", hidden])
    y = expert_mlp(moe)(CheckpointWeights(author, RandomTensors()), dimensions, "mlp", x)
    author.output("y", y, ["rows", hidden])
    author.save(directory / "model.onnx")
    return directory / "model.onnx"


def memory(kind: str) -> int:
    """Bytes of ``VmRSS`` (now) or ``VmHWM`` (peak)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))


def milliseconds(run: Callable[[], object]) -> float:
    times = []
    for _ in range(9):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return round(float(np.median(times)), 2)


def main(directory: Path, hidden: int) -> None:
    graph = write_layer(directory, hidden)
    rows = np.random.default_rng(2).standard_normal((16, hidden), np.float32)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    before, start = memory("VmRSS"), time.perf_counter()
    session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    opened = time.perf_counter() - start
    passes = {count: milliseconds(partial(session.run, None, {"x": rows[:count]})) for count in (1, 2, 16)}
    peak = memory("VmHWM") - before
    numbers = np.ones(CHOSEN * 3 * hidden * inner_width(hidden), np.float32)
    print(
        json.dumps(
            {
                "weights": weight_bytes(hidden),
                "peak": peak,
                "seconds to open": round(opened, 2),
                **{f"ms of {count} rows": value for count, value in passes.items()},
                "ms to read the experts of one row": milliseconds(numbers.sum),
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
